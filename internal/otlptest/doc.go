// Package otlptest is an OTLP endpoint for tests: gRPC and HTTP on loopback ports, with answers that a test scripts. It
// keeps every request that it took, decoded.
//
//	srv := otlptest.Start(t)
//	srv.Respond(func(r otlptest.Request) otlptest.Answer {
//		if r.Attempt < 3 { return otlptest.Busy(0) }
//		return otlptest.OK
//	})
//	… send to srv.GRPC() or srv.HTTP() …
//	srv.Await(t, func() bool { return len(srv.Spans()) == 5 })
//
// A Server is safe for concurrent use. The package must not import anything of ptlaunch.
package otlptest
