// Package kernfile reads the small text files of /proc and /sys: opened once, read again and again with pread, and every
// failure given one of the reasons that a snapshot.Gap knows.
//
// It is the bottom of the readers below package sampler and imports package snapshot only for those reasons. A File
// belongs to one goroutine.
package kernfile
