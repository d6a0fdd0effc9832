package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/tempo"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// query is one PromQL expression and how its series are named.
type query struct{ expr, legend string }

// panel is what a panel shows; draw decides how.
type panel struct {
	title, help string
	unit        string // Grafana's unit id: s, Bps, percentunit, …
	width       uint32 // of 24
	queries     []query
}

const panelHeight = 8

var (
	promRef  = common.DataSourceRef{Type: new("prometheus"), Uid: new("${prometheus}")}
	tempoRef = common.DataSourceRef{Type: new("tempo"), Uid: new("${tempo}")}
)

func targets(queries []query, instant bool) []cog.Builder[variants.Dataquery] {
	var out []cog.Builder[variants.Dataquery]
	for i, q := range queries {
		b := prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A' + i)))
		if instant {
			b = b.Instant().Format(prometheus.PromQueryFormatTable)
		}
		out = append(out, b)
	}
	return out
}

// lines draws series over time.
func lines(p panel) cog.Builder[dashboard.Panel] {
	return timeseries.NewPanelBuilder().Title(p.title).Description(p.help).Unit(p.unit).Datasource(promRef).
		Span(p.width).Height(panelHeight).FillOpacity(10).Targets(targets(p.queries, false))
}

// stacked draws series that add up to a whole.
func stacked(p panel) cog.Builder[dashboard.Panel] {
	return timeseries.NewPanelBuilder().Title(p.title).Description(p.help).Unit(p.unit).Datasource(promRef).
		Span(p.width).Height(panelHeight).FillOpacity(60).LineWidth(0).Min(0).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).
		Targets(targets(p.queries, false))
}

// number draws one figure.
func number(p panel) cog.Builder[dashboard.Panel] {
	return stat.NewPanelBuilder().Title(p.title).Description(p.help).Unit(p.unit).Datasource(promRef).
		Span(p.width).Height(panelHeight / 2).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Targets(targets(p.queries, false))
}

// bars draws the present values side by side, largest first.
func bars(p panel) cog.Builder[dashboard.Panel] {
	return bargauge.NewPanelBuilder().Title(p.title).Description(p.help).Unit(p.unit).Datasource(promRef).
		Span(p.width).Height(panelHeight).Min(0).Orientation(common.VizOrientationHorizontal).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Targets(targets(p.queries, false))
}

// rows draws the present values as a table.
func rows(p panel) cog.Builder[dashboard.Panel] {
	return table.NewPanelBuilder().Title(p.title).Description(p.help).Unit(p.unit).Datasource(promRef).
		Span(p.width).Height(panelHeight).Footer(noFooter()).Targets(targets(p.queries, true))
}

// noFooter is a table without a line of sums; the schema wants it said.
func noFooter() cog.Builder[common.TableFooterOptions] {
	return common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{})
}

// traces lists what a TraceQL query finds; each row links to its trace.
func traces(title, help, traceQL string, width uint32) cog.Builder[dashboard.Panel] {
	return table.NewPanelBuilder().Title(title).Description(help).Datasource(tempoRef).Span(width).Height(panelHeight).
		Footer(noFooter()).
		Targets([]cog.Builder[variants.Dataquery]{
			tempo.NewDataqueryBuilder().RefId("A").QueryType("traceql").Query(traceQL).Limit(50).
				TableType(tempo.SearchTableTypeSpans),
		})
}

// base is what all dashboards share: their data sources, the choice of a service, and links to each other.
func base(uid, title, help string) *dashboard.DashboardBuilder {
	return dashboard.NewDashboardBuilder(title).Uid(uid).Description(help).Tags([]string{"ptlaunch", "pytorch"}).
		Editable().Timezone("browser").Time("now-3h", "now").Refresh("30s").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("prometheus").Label("Metrics").Type("prometheus")).
		WithVariable(dashboard.NewDatasourceVariableBuilder("tempo").Label("Traces").Type("tempo")).
		Link(dashboard.NewDashboardLinkBuilder("ptlaunch").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"ptlaunch"}).KeepTime(true).AsDropdown(true))
}

// choice is a variable whose values are a label's.
func choice(name, label, labelQuery string, multi bool) cog.Builder[dashboard.VariableModel] {
	b := dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(promRef).
		Query(dashboard.StringOrMap{String: new(labelQuery)}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
	if multi {
		b = b.Multi(true).IncludeAll(true).AllValue(".*")
	}
	return b
}

// mark draws a vertical line wherever an expression has a value.
func mark(name, colour, expr, text string) cog.Builder[dashboard.AnnotationQuery] {
	return dashboard.NewAnnotationQueryBuilder().Name(name).Datasource(promRef).Enable(true).IconColor(colour).
		Expr(expr).TitleFormat(name).TextFormat(text).Step("15s")
}

func row(title string) cog.Builder[dashboard.RowPanel] { return dashboard.NewRowBuilder(title) }
