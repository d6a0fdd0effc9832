package procfs

// ReadResident reads the resident pages, the second number, of a kept statm file.
func (fs *FS) ReadResident(f File) (uint64, error) {
	b, err := fs.pread(f, "statm")
	if err != nil {
		return 0, err
	}
	return ParseStatmResident(b)
}

// ParseStatmResident parses the resident pages out of /proc/PID/statm.
func ParseStatmResident(b []byte) (uint64, error) {
	p := scanner{b: b}
	p.uint()
	n := p.uint()
	if p.bad {
		return 0, malformed("statm", "not two numbers")
	}
	return n, nil
}
