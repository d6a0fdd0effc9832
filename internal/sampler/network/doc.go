// Package network reads how much the job's network namespaces have received and sent, and, now and then, in which states the
// TCP sockets of its ranks and workers are: enough to tell "the data comes over the network" from "nothing moves".
//
// Bytes are of a namespace as a whole, since the kernel does not count them per process. On a host without containers that is
// the whole machine's traffic. What RDMA moves (NCCL over InfiniBand or RoCE) passes the kernel by and is in no counter here.
//
// It is a part of the sampler: Reader.Read fills Snapshot.Network. It imports packages kernfile, latest and snapshot; it
// must not import package sampler. A Reader belongs to one goroutine; the count of sockets, which is slow, has its own.
package network
