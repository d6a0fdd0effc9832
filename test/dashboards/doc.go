// Package dashboards writes and checks the Grafana dashboards in collector-config/grafana/dashboards.
//
// They are made with Grafana's own builders, so what is written is what Grafana's schema allows; the test decodes the files
// strictly, validates them, and runs every query through Prometheus' parser. It is a module of its own so that the product's
// go.mod stays small. After a change: go test -run TestUpToDate -update .
package dashboards
