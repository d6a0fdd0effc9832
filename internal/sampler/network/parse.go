package network

import (
	"bytes"
	"encoding/hex"
	"strconv"

	"github.com/ptlaunch/ptlaunch/internal/sampler/kernfile"
	"github.com/ptlaunch/ptlaunch/internal/snapshot"
)

// ParseDev reads /proc/PID/net/dev: two lines of heading, then "name: rx_bytes rx_packets … (8 columns) tx_bytes …".
func ParseDev(b []byte) ([]snapshot.Interface, error) {
	_, b = kernfile.Line(b)
	heading, b := kernfile.Line(b)
	if !bytes.Contains(heading, []byte("|bytes")) {
		return nil, kernfile.Malformed("net/dev", string(heading))
	}
	var out []snapshot.Interface
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		// The name may hold a colon itself ("eth0:1" of old kernels); the counters do not.
		i := bytes.LastIndexByte(line, ':')
		if i < 0 {
			return nil, kernfile.Malformed("net/dev", string(line))
		}
		iface := snapshot.Interface{Name: string(bytes.TrimSpace(line[:i]))}
		rest := line[i+1:]
		for column := range 9 {
			n, r, ok := kernfile.UintField(rest)
			if !ok || iface.Name == "" {
				return nil, kernfile.Malformed("net/dev", string(line))
			}
			switch column {
			case 0:
				iface.RxBytes = n
			case 8:
				iface.TxBytes = n
			}
			rest = r
		}
		out = append(out, iface)
	}
	return out, nil
}

// tcpStates are the kernel's states in the order of their numbers, which start at 1.
var tcpStates = [...]string{
	"established", "syn_sent", "syn_recv", "fin_wait1", "fin_wait2", "time_wait", "close", "close_wait", "last_ack", "listen", "closing", "new_syn_recv",
}

// socket is a line of /proc/PID/net/tcp.
type socket struct {
	state      string
	send, recv uint64 // bytes queued; of a listening socket recv is connections, and left out
	inode      uint64
}

// parseTCP calls see for each socket of a net/tcp or net/tcp6 text.
func parseTCP(b []byte, see func(socket)) error {
	_, b = kernfile.Line(b) // heading
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		// sl local remote st tx:rx tr:when retrnsmt uid timeout inode
		if len(fields) < 10 {
			return kernfile.Malformed("net/tcp", string(line))
		}
		var st [1]byte
		n, err := hex.Decode(st[:], fields[3][:min(2, len(fields[3]))])
		inode, ok := kernfile.Uint(fields[9])
		tx, rx, cut := bytes.Cut(fields[4], []byte(":"))
		send, err1 := strconv.ParseUint(string(tx), 16, 64)
		recv, err2 := strconv.ParseUint(string(rx), 16, 64)
		if err != nil || err1 != nil || err2 != nil || n != 1 || !ok || !cut {
			return kernfile.Malformed("net/tcp", string(line))
		}
		s := socket{state: "other", send: send, recv: recv, inode: inode}
		if i := int(st[0]) - 1; i >= 0 && i < len(tcpStates) {
			s.state = tcpStates[i]
		}
		if s.state == "listen" {
			s.recv = 0
		}
		see(s)
	}
	return nil
}

// parseInUse returns the number of TCP sockets from net/sockstat ("TCP: inuse 4 orphan 0 …") or net/sockstat6.
func parseInUse(b []byte) (uint64, error) {
	for len(b) > 0 {
		var line []byte
		line, b = kernfile.Line(b)
		fields := bytes.Fields(line)
		if len(fields) >= 3 && (string(fields[0]) == "TCP:" || string(fields[0]) == "TCP6:") {
			if n, ok := kernfile.Uint(fields[2]); ok && string(fields[1]) == "inuse" {
				return n, nil
			}
			return 0, kernfile.Malformed("net/sockstat", string(line))
		}
	}
	return 0, kernfile.Malformed("net/sockstat", "no TCP line")
}
