package cgroupfs

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
)

const (
	mountV2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountHybrid = `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	// Docker on a v1 host without a private cgroup namespace: the mounts show the container's own groups at their top.
	mountDockerV1 = `32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
`
)

func TestLocate(t *testing.T) {
	const sys = "/host/sys/fs/cgroup"
	for _, c := range []struct {
		name, cgroup, mounts string
		version, path        string
		unified              *Folder
		controllers          map[string]Folder
		hidden               map[string]error
	}{
		{
			name: "pure v2 host", cgroup: "0::/user.slice/job.scope\n", mounts: mountV2,
			version: "v2", path: "/user.slice/job.scope", unified: &Folder{sys + "/user.slice/job.scope", sys},
		},
		{
			name: "v2 in a private namespace", cgroup: "0::/\n", mounts: mountV2,
			version: "v2", path: "/", unified: &Folder{sys, sys},
		},
		{
			name: "a neighbour seen from a private namespace", cgroup: "0::/../job\n", mounts: mountV2,
			version: "v2", path: "/../job", hidden: map[string]error{"unified": ErrOutside},
		},
		{
			name: "the same, with the host's tree mounted", cgroup: "0::/../job/a\n", mounts: strings.Replace(mountV2, "0:26 / ", "0:26 /.. ", 1),
			version: "v2", path: "/../job/a", unified: &Folder{sys + "/job/a", sys},
		},
		{
			name: "a namespace's own group in a mount that climbs out of it has no name here", cgroup: "0::/\n", mounts: strings.Replace(mountV2, "0:26 / ", "0:26 /../.. ", 1),
			version: "v2", path: "/", hidden: map[string]error{"unified": ErrOutside},
		},
		{
			name: "hybrid", cgroup: "9:name=systemd:/x\n4:memory:/job\n1:cpu,cpuacct:/\n0::/\n", mounts: mountHybrid,
			version: "hybrid", path: "/job", unified: &Folder{sys + "/unified", sys + "/unified"},
			controllers: map[string]Folder{
				"memory": {sys + "/memory/job", sys + "/memory"}, "cpu": {sys + "/cpu,cpuacct", sys + "/cpu,cpuacct"}, "cpuacct": {sys + "/cpu,cpuacct", sys + "/cpu,cpuacct"},
			},
		},
		{
			name: "v1 container without a namespace", cgroup: "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc/sub\n", mounts: mountDockerV1,
			version: "v1", path: "/docker/abc",
			controllers: map[string]Folder{
				"memory": {sys + "/memory", sys + "/memory"}, "cpu": {sys + "/cpu/sub", sys + "/cpu"}, "cpuacct": {sys + "/cpu/sub", sys + "/cpu"},
			},
		},
		{
			name: "nothing mounted", cgroup: "4:memory:/x\n0::/x\n", mounts: "22 27 0:21 / /proc rw - proc proc rw\n",
			version: "v1", path: "/x", hidden: map[string]error{"unified": ErrNotMounted, "memory": ErrNotMounted},
		},
		{
			name: "names with spaces and colons, and a group that was removed", cgroup: "0::/a b:c (deleted)\n", mounts: strings.Replace(mountV2, "/sys/fs/cgroup ", `/cg\040x `, 1),
			version: "v2", path: "/a b:c", unified: &Folder{"/cg x/a b:c", "/cg x"},
		},
		{
			name: "docker/ab is not above docker/abc", cgroup: "4:memory:/docker/abcd\n", mounts: mountDockerV1,
			version: "v1", path: "/docker/abcd", hidden: map[string]error{"memory": ErrOutside},
		},
	} {
		g, err := Locate([]byte(c.cgroup), []byte(c.mounts), "/host/sys")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if g.Version != c.version || g.Path != c.path {
			t.Errorf("%s: %s %s, want %s %s", c.name, g.Version, g.Path, c.version, c.path)
		}
		if diff := cmp.Diff(c.unified, g.Unified); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if c.controllers == nil {
			c.controllers = map[string]Folder{}
		}
		if diff := cmp.Diff(c.controllers, g.Controllers); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if len(c.hidden) != len(g.Hidden) {
			t.Errorf("%s: hidden %v, want %v", c.name, g.Hidden, c.hidden)
		}
		for k, want := range c.hidden {
			if !errors.Is(g.Hidden[k], want) {
				t.Errorf("%s: %s: %v, want %v", c.name, k, g.Hidden[k], want)
			}
		}
	}
	for _, in := range []string{"", "x\n", "1:cpu\n", "0::relative\n"} {
		if _, err := Locate([]byte(in), nil, "/sys"); !errors.Is(err, kernfile.ErrMalformed) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func FuzzLocate(f *testing.F) {
	f.Add([]byte("4:memory:/job\n0::/\n"), []byte(mountHybrid))
	f.Add([]byte("0::/../..\n"), []byte(mountV2))
	f.Fuzz(func(t *testing.T, cgroup, mounts []byte) {
		g, err := Locate(cgroup, mounts, "/sys")
		if err != nil {
			return
		}
		check := func(f Folder) {
			if f.Dir != f.Top && !strings.HasPrefix(f.Dir, strings.TrimSuffix(f.Top, "/")+"/") {
				t.Errorf("%q is not below %q", f.Dir, f.Top)
			}
			steps := 0
			_ = f.upward(func(string) error { steps++; return nil })
			if steps == 0 || steps > len(f.Dir)+1 {
				t.Errorf("%d steps from %q up to %q", steps, f.Dir, f.Top)
			}
		}
		if g.Unified != nil {
			check(*g.Unified)
		}
		for _, f := range g.Controllers {
			check(f)
		}
	})
}
