package model

import "slices"

// comparePipes looks at the pipes that processes started by multiprocessing hold at both ends. A DataLoader's workers share the
// result pipe, and each has an index pipe that no other has. The children of a multiprocessing pool share everything.
func (b *Builder) comparePipes() {
	for _, m := range b.order {
		if m.pipesTell || !m.startedByMultiprocessing() || len(m.info.Pipes) < 2 {
			continue
		}
		shared, private := false, m.info.Pipes
		if m.belowForkserver() {
			private = without(private, m.parent.info.Pipes)
		}
		for _, s := range b.order {
			if s == m || s.bornOf != m.bornOf || !s.startedByMultiprocessing() {
				continue
			}
			rest := without(private, s.info.Pipes)
			shared = shared || len(rest) < len(private)
			private = rest
		}
		m.pipesTell = shared && len(private) > 0
	}
}

// without is a less what is in b.
func without(a, b []string) []string {
	if !slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) }) {
		return a
	}
	var out []string
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
