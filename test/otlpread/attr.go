package otlpread

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
)

// Attrs are the attributes of a span, a data point or a resource: string, int64, float64, bool or []any of these.
type Attrs map[string]any

// String returns the string attribute of that name, "" when there is none.
func (a Attrs) String(name string) string {
	s, _ := a[name].(string)
	return s
}

// Int returns the integer attribute of that name and whether there is one.
func (a Attrs) Int(name string) (int64, bool) {
	n, ok := a[name].(int64)
	return n, ok
}

// Float returns the floating-point attribute of that name and whether there is one.
func (a Attrs) Float(name string) (float64, bool) {
	f, ok := a[name].(float64)
	return f, ok
}

type keyValue struct {
	Key   string   `json:"key"`
	Value anyValue `json:"value"`
}

type anyValue struct {
	String *string      `json:"stringValue"`
	Bool   *bool        `json:"boolValue"`
	Int    *json.Number `json:"intValue"` // a string in OTLP-JSON; json.Number takes both
	Double *float64     `json:"doubleValue"`
	Array  *struct {
		Values []anyValue `json:"values"`
	} `json:"arrayValue"`
}

func (v anyValue) value() any {
	switch {
	case v.String != nil:
		return *v.String
	case v.Bool != nil:
		return *v.Bool
	case v.Int != nil:
		n, _ := v.Int.Int64()
		return n
	case v.Double != nil:
		return *v.Double
	case v.Array != nil:
		list := make([]any, 0, len(v.Array.Values))
		for _, e := range v.Array.Values {
			list = append(list, e.value())
		}
		return list
	}
	return nil
}

func attrs(list []keyValue) Attrs {
	a := make(Attrs, len(list))
	for _, kv := range list {
		a[kv.Key] = kv.Value.value()
	}
	return a
}

// nanos is a uint64 of OTLP-JSON: a decimal string.
type nanos uint64

func (n *nanos) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	v, err := strconv.ParseUint(string(b), 10, 64)
	*n = nanos(v)
	return err
}

// eachLine decodes every line of a file as a T. A last line without its newline is what a killed writer leaves: it is
// skipped.
func eachLine[T any](path string, take func(T)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("%s:%d: %v", path, n, err)
		}
		take(v)
	}
}
