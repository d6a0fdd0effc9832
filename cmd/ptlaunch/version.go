package main

import "runtime/debug"

// version is set by the linker: see the Makefile.
var version string

// buildVersion is what reports, telemetry and `ptlaunch version` show: what the linker was told, else what Go knows of the
// module, as after `go install ...@v1.2.3` or in a checkout, else "dev".
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
