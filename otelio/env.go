package otelio

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Lookup returns the value of an environment variable and whether it is set, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// defaultExportInterval is between two exports of metrics. The SDK's default of 60 s is for services; most training runs
// on a workstation last minutes, and a stall of half a minute must be visible while it lasts.
const defaultExportInterval = 10 * time.Second

// settings is what the OTEL_* variables ask for.
type settings struct {
	targets   [numSignals]*target // nil: the signal is not sent
	interval  time.Duration       // between two exports of metrics
	delta     deltaKinds
	expoHist  bool
	dropSpans bool // the sampler drops this trace: it is recorded in the run folder and not sent
	service   string
	resource  []keyValue
	problems  []string // one line each, for a person
}

type keyValue struct{ key, value string }

// target is where and how one signal is sent.
type target struct {
	protocol string // "grpc", "http/protobuf", "http/json"
	endpoint string // grpc: a dial target; http: the URL
	insecure bool   // without TLS
	files    tlsFiles
	headers  map[string]string
	gzip     bool
	timeout  time.Duration // for one attempt
}

// tlsFiles are the PEM files of a TLS connection, "" for none.
type tlsFiles struct{ ca, cert, key string }

// reader reads variables and collects what is wrong with them.
type reader struct {
	lookup   Lookup
	problems []string
}

// get returns the value of a variable, "" when it is not set: an empty one counts as unset, as the specification says.
// PTLAUNCH_<name> beats <name>, for settings that the training code, which sees the same variables, must not share.
func (r *reader) get(name string) string {
	for _, n := range [...]string{"PTLAUNCH_" + name, name} {
		if v, ok := r.lookup(n); ok && strings.TrimSpace(v) != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (r *reader) complain(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for _, p := range r.problems {
		if p == line {
			return
		}
	}
	r.problems = append(r.problems, line)
}

// choice returns the value of a variable if it is one of allowed, else fallback, with a complaint if it was set.
func (r *reader) choice(name, fallback string, allowed ...string) string {
	v := strings.ToLower(r.get(name))
	if v == "" {
		return fallback
	}
	for _, a := range allowed {
		if v == a {
			return v
		}
	}
	r.complain("%s=%q is not known: it must be one of %s; going on with %s", name, v, strings.Join(allowed, ", "), fallback)
	return fallback
}

// flag returns a boolean variable. Anything but true and false counts as false, as the specification says.
func (r *reader) flag(name string) bool { return r.choice(name, "false", "true", "false") == "true" }

// millis returns a variable in milliseconds.
func (r *reader) millis(name string, fallback time.Duration) time.Duration {
	v := r.get(name)
	if v == "" {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Millisecond) {
		r.complain("%s=%q is not a number of milliseconds between 1 and a day; going on with %d", name, v, fallback.Milliseconds())
		return fallback
	}
	return time.Duration(n) * time.Millisecond
}

// pairs returns a list of key=value, as headers and resource attributes are written (W3C baggage: values percent-encoded).
func (r *reader) pairs(name string, secret bool) []keyValue {
	var out []keyValue
	for _, item := range strings.Split(r.get(name), ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		shown := strconv.Quote(item)
		if secret {
			shown = "an item"
		}
		key, value, ok := strings.Cut(item, "=")
		key = strings.TrimSpace(key)
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil {
			r.complain("%s: %s is not key=value; it is left out", name, shown)
			continue
		}
		out = append(out, keyValue{key, decoded})
	}
	return out
}

// readSettings reads the OTEL_* variables. It cannot fail: what is malformed is said in problems and left out.
func readSettings(lookup Lookup, traceID string) settings {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	r := &reader{lookup: lookup}
	s := settings{
		interval: r.millis("OTEL_METRIC_EXPORT_INTERVAL", defaultExportInterval),
		service:  r.get("OTEL_SERVICE_NAME"),
		resource: r.pairs("OTEL_RESOURCE_ATTRIBUTES", false),
	}
	s.delta = readTemporality(r)
	s.dropSpans = dropsTrace(r, traceID)
	s.expoHist = r.choice("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram",
		"explicit_bucket_histogram", "base2_exponential_bucket_histogram") == "base2_exponential_bucket_histogram"
	// The SDK reads these itself, and says nothing when it cannot.
	for _, name := range [...]string{"OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT"} {
		if v := r.get(name); v != "" {
			if _, err := strconv.Atoi(v); err != nil {
				r.complain("%s=%q is not a whole number; going on with the default", name, v)
			}
		}
	}
	if r.get("OTEL_CONFIG_FILE") != "" || r.get("OTEL_EXPERIMENTAL_CONFIG_FILE") != "" {
		r.complain("OTEL_CONFIG_FILE is not supported; going on with the other OTEL_* variables")
	}
	if !r.flag("OTEL_SDK_DISABLED") {
		for sig := range numSignals {
			s.targets[sig] = readTarget(r, sig)
		}
	}
	s.problems = r.problems
	return s
}

// readTarget returns where a signal goes, nil for nowhere.
func readTarget(r *reader, sig signal) *target {
	w := sig.wire()
	endpoint, endpointName, own := r.get("OTEL_EXPORTER_OTLP_"+w.env+"_ENDPOINT"), "OTEL_EXPORTER_OTLP_"+w.env+"_ENDPOINT", true
	if endpoint == "" {
		endpoint, endpointName, own = r.get("OTEL_EXPORTER_OTLP_ENDPOINT"), "OTEL_EXPORTER_OTLP_ENDPOINT", false
	}
	if !readExporter(r, w, endpoint != "") || endpoint == "" {
		return nil
	}
	// name picks the signal's own variable when that is set.
	name := func(suffix string) string {
		if n := "OTEL_EXPORTER_OTLP_" + w.env + "_" + suffix; r.get(n) != "" {
			return n
		}
		return "OTEL_EXPORTER_OTLP_" + suffix
	}
	t := &target{
		protocol: r.choice(name("PROTOCOL"), "grpc", "grpc", "http/protobuf", "http/json"),
		insecure: r.flag(name("INSECURE")),
		files:    tlsFiles{r.get(name("CERTIFICATE")), r.get(name("CLIENT_CERTIFICATE")), r.get(name("CLIENT_KEY"))},
		headers:  map[string]string{},
		gzip:     r.choice(name("COMPRESSION"), "none", "none", "gzip") == "gzip",
		timeout:  r.millis(name("TIMEOUT"), 10*time.Second),
	}
	for _, h := range r.pairs(name("HEADERS"), true) {
		if !validHeader(h) {
			r.complain("%s: header %q cannot be sent; it is left out", name("HEADERS"), h.key)
			continue
		}
		t.headers[strings.ToLower(h.key)] = h.value
	}
	unsent := "nothing is sent to it" // one line for all signals that share the variable
	if own {
		unsent = w.name + " are not sent"
	}
	if err := t.setEndpoint(endpoint, w, own); err != nil {
		r.complain("%s=%q cannot be used: %v; %s", endpointName, withoutPassword(endpoint), err, unsent)
		return nil
	}
	if _, err := t.files.config(); err != nil && !t.insecure {
		r.complain("TLS for %s: %v; %s", endpointName, err, unsent)
		return nil
	}
	return t
}

// readExporter reports whether a signal is to be sent over OTLP.
func readExporter(r *reader, w wire, endpoint bool) bool {
	name := "OTEL_" + w.env + "_EXPORTER"
	value := strings.ToLower(r.get(name))
	if value == "" {
		return true
	}
	otlp := false
	for _, v := range strings.Split(value, ",") {
		switch v = strings.TrimSpace(v); v {
		case "otlp":
			otlp = true
			if !endpoint {
				r.complain("%s=otlp but no endpoint variable is set: %s are kept in the run folder only", name, w.name)
			}
		case "none", "":
		case "console", "logging", "otlp/stdout":
			r.complain("%s=%s: the terminal belongs to the job; %s are in the run folder's %s", name, v, w.name, w.file)
		default:
			r.complain("%s=%q is not known: it must be otlp, console or none; going on with otlp", name, v)
			otlp = true
		}
	}
	return otlp
}

// setEndpoint fills in endpoint and insecure. own says that the endpoint is the signal's own variable, whose URL is used
// as it is for HTTP; the general one gets the signal's path appended.
func (t *target) setEndpoint(value string, w wire, own bool) error {
	if t.protocol == "grpc" && !strings.Contains(value, "://") {
		value = map[bool]string{true: "http://", false: "https://"}[t.insecure] + value
	}
	u, err := url.Parse(value)
	if err != nil {
		return fmt.Errorf("it is not a URL")
	}
	switch u.Scheme {
	case "http":
		t.insecure = true
	case "https":
		t.insecure = false
	case "unix":
		if t.protocol != "grpc" {
			return fmt.Errorf("unix sockets need OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
		}
		t.insecure, t.endpoint = true, value
		return nil
	default:
		return fmt.Errorf("it must begin with http:// or https://")
	}
	if u.Hostname() == "" {
		return fmt.Errorf("it names no host")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("port %s is not between 1 and 65535", p)
		}
	}
	if t.protocol == "grpc" {
		t.endpoint = "dns:///" + u.Host
		if u.Port() == "" {
			t.endpoint += map[bool]string{true: ":80", false: ":443"}[t.insecure]
		}
		return nil
	}
	if !own {
		u = u.JoinPath(w.httpPath)
	} else if u.Path == "" {
		u.Path = "/"
	}
	t.endpoint = u.String()
	return nil
}

// shown is the endpoint for a person.
func (t *target) shown() string {
	return strings.TrimPrefix(withoutPassword(t.endpoint), "dns:///")
}

// withoutPassword replaces what may be credentials in a URL, also in one that cannot be parsed.
func withoutPassword(endpoint string) string {
	at := strings.LastIndexByte(endpoint, '@')
	if at < 0 {
		return endpoint
	}
	from := 0
	if i := strings.Index(endpoint, "://"); i >= 0 && i < at {
		from = i + len("://")
	}
	return endpoint[:from] + "…" + endpoint[at:]
}

// validHeader reports whether HTTP and gRPC can carry the header.
func validHeader(h keyValue) bool {
	for _, c := range []byte(h.key) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	for _, c := range []byte(h.value) {
		if c < 0x20 && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}
