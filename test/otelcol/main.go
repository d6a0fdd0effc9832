// Command otelcol is the OpenTelemetry Collector that ptlaunch's tests talk to: the real thing, built from its published
// modules with the components that collector-config/ uses. It is a module of its own so that the product's go.mod stays small.
package main

import (
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/open-telemetry/opentelemetry-collector-contrib/connector/spanmetricsconnector"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusremotewriteexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/pprofextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/filterprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/hostmetricsreceiver"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// components lists what the configurations in collector-config/ may name.
func components() (otelcol.Factories, error) {
	return otelcol.Factories{
		Extensions: must(otelcol.MakeFactoryMap[extension.Factory](
			healthcheckextension.NewFactory(), filestorage.NewFactory(), pprofextension.NewFactory())),
		Receivers: must(otelcol.MakeFactoryMap[receiver.Factory](
			otlpreceiver.NewFactory(), hostmetricsreceiver.NewFactory())),
		Processors: must(otelcol.MakeFactoryMap[processor.Factory](
			batchprocessor.NewFactory(), memorylimiterprocessor.NewFactory(),
			filterprocessor.NewFactory(), transformprocessor.NewFactory())),
		Exporters: must(otelcol.MakeFactoryMap[exporter.Factory](
			debugexporter.NewFactory(), nopexporter.NewFactory(), otlpexporter.NewFactory(), otlphttpexporter.NewFactory(),
			fileexporter.NewFactory(), prometheusexporter.NewFactory(), prometheusremotewriteexporter.NewFactory())),
		Connectors: must(otelcol.MakeFactoryMap[connector.Factory](spanmetricsconnector.NewFactory())),
		Telemetry:  otelconftelemetry.NewFactory(), // without it the service has no telemetry factory and does not start
	}, nil
}

func main() {
	set := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "Collector for ptlaunch's tests", Version: "0.155.0"},
		Factories: components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{
				envprovider.NewFactory(), fileprovider.NewFactory(), yamlprovider.NewFactory(),
			},
			DefaultScheme: "env",
		}},
	}
	if err := otelcol.NewCommand(set).Execute(); err != nil { // gives: run, validate, components
		log.Fatal(err)
	}
}
