// Package e2e runs whole trainings under the ptlaunch binary against the real servers that people use: the OpenTelemetry
// Collector with the configurations of collector-config, Jaeger, and Prometheus 3. It then asks the servers' own APIs what
// arrived.
//
// The tests have the build tag e2e because Jaeger and Prometheus take minutes to build; `make e2e` does that and runs them.
// The servers' sources are modules of their own, in jaeger/ and prometheus/.
package e2e
