package otelio

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/ptlaunch/ptlaunch/internal/otlptest"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// closeWithin closes a Sink with a deadline.
func closeWithin(t testing.TB, s *Sink, d time.Duration, seconds int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return s.Close(ctx, outcome(seconds, snapshot.ExitStatus{}))
}

// readRequests returns the requests in a file of the run folder, decoded by the test server's own decoder.
func readRequests(t testing.TB, dir string, sig signal) []proto.Message {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, sig.wire().file))
	if err != nil {
		t.Fatal(err)
	}
	var out []proto.Message
	for l := range bytes.Lines(b) {
		m := sig.wire().request()
		if err := otlptest.DecodeJSON(l, m); err != nil {
			t.Fatalf("%s: %v", sig, err)
		}
		out = append(out, m)
	}
	return out
}

func TestSinkSendsWhatItWrites(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf", "http/json"} {
		for _, compression := range []string{"none", "gzip"} {
			t.Run(protocol+" "+compression, func(t *testing.T) {
				srv := otlptest.Start(t)
				endpoint := srv.HTTP()
				if protocol == "grpc" {
					endpoint = srv.GRPC()
				}
				dir := t.TempDir()
				s := newSink(t, dir, env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL", protocol,
					"OTEL_EXPORTER_OTLP_COMPRESSION", compression, "OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20b"))
				for n := range 25 {
					s.Consume(testFrame(n+1), nil)
				}
				if err := closeWithin(t, s, 20*time.Second, 25); err != nil {
					t.Fatal(err)
				}
				for sig := range numSignals {
					var got []proto.Message
					for _, r := range srv.Requests() {
						if r.Signal == sig.String() {
							got = append(got, r.Message)
							if h := r.Header.Get("x-token"); h != "a b" {
								t.Errorf("header x-token is %q", h)
							}
						}
					}
					want := readRequests(t, dir, sig)
					if len(want) == 0 {
						t.Errorf("no %s in the run folder", sig)
					}
					if !slices.EqualFunc(got, want, proto.Equal) {
						t.Errorf("%s: the endpoint got %d requests that differ from the %d in the file", sig, len(got), len(want))
					}
				}
			})
		}
	}
}

func TestSpansOfAShortRun(t *testing.T) {
	dir := t.TempDir()
	s := newSink(t, dir, env())
	s.Consume(testFrame(1), nil)
	s.Consume(testFrame(2), nil)
	if err := closeWithin(t, s, 20*time.Second, 3); err != nil {
		t.Fatal(err)
	}
	got := spanTree(t, dir)
	want := []string{
		"dataloader.pool < training.rank 2s",
		"training.node < training.run 0s piece 0",
		"training.node < training.run 3s",
		"training.rank < training.node 3s",
		"training.run < none 0s piece 0",
		"training.run < none 3s",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("spans (-want +got):\n%s", d)
	}
}
