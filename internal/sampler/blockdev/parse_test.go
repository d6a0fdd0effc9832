package blockdev

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

const vda = " 254       0 vda 63811 12841 3575338 10607 37848 75804 8713968 14334 3 8548 25712 9728 42 1939912 626 4881 144\n"

func TestParse(t *testing.T) {
	want := snapshot.Device{
		Name: "vda", Major: 254, Reads: 63811, ReadMerged: 12841, ReadBytes: 3575338 * 512, ReadTime: 10607 * time.Millisecond,
		Writes: 37848, WriteMerged: 75804, WriteBytes: 8713968 * 512, WriteTime: 14334 * time.Millisecond,
		InFlight: 3, IOTime: 8548 * time.Millisecond, Weighted: 25712 * time.Millisecond,
	}
	// Linux 4.18 to 6: 14, 18, 20 columns. A partition before 2.6.25: 7 columns, left out.
	for _, in := range []string{vda, "254 0 vda 63811 12841 3575338 10607 37848 75804 8713968 14334 3 8548 25712\n   8       1 sda1 1 2 3 4\n"} {
		got, err := Parse(nil, []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]snapshot.Device{want}, got); diff != "" {
			t.Error(diff)
		}
	}
	for _, in := range []string{"x", "8 0\n", "8 0 sda -1 0 0 0 0 0 0 0 0 0 0\n", "8 99999999999 sda 1 1 1 1 1 1 1 1 1 1 1\n", "8 0 sda 1 1 18446744073709551615 1 1 1 1 1 1 1 1\n"} {
		if got, err := Parse(nil, []byte(vda+in)); !errors.Is(err, kernfile.ErrMalformed) || len(got) != 1 {
			t.Errorf("%q: %d devices, %v; want the one before it and an error", in, len(got), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(vda))
	f.Add([]byte("8 0 a\xff 1 1 1 1 1 1 1 1 1 1 1 1\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _ := Parse(nil, b)
		for _, d := range got {
			if d.Name == "" || d.IOTime < 0 || d.Weighted < 0 {
				t.Fatalf("%+v", d)
			}
		}
	})
}

func TestParseNumber(t *testing.T) {
	for in, want := range map[string]bool{"8:0": true, "259:12": true, "": false, "8": false, "8:": false, "a:1": false, "8:-1": false} {
		n, ok := ParseNumber(in)
		if ok != want || ok && n.String() != in {
			t.Errorf("%q: %v, %v", in, n, ok)
		}
	}
}
