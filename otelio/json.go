package otelio

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// appendJSON appends m in OTLP/JSON, on one line. OTLP/JSON is proto3 JSON with three differences that rule protojson out
// as a writer: trace and span ids are hex, enums are numbers, and the output has to be stable.
func appendJSON(b []byte, m protoreflect.Message) []byte {
	b = append(b, '{')
	first := true
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = append(b, fd.JSONName()...)
		b = append(b, '"', ':')
		v := m.Get(fd)
		if !fd.IsList() {
			b = appendJSONValue(b, fd, v)
			continue
		}
		b = append(b, '[')
		for j, list := 0, v.List(); j < list.Len(); j++ {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendJSONValue(b, fd, list.Get(j))
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendJSONValue(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return appendJSON(b, v.Message())
	case protoreflect.StringKind:
		return appendJSONString(b, v.String())
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.EnumKind:
		return strconv.AppendInt(b, int64(v.Enum()), 10)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(b, v.Int(), 10)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return strconv.AppendUint(b, v.Uint(), 10)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		b = append(b, '"')
		return append(strconv.AppendInt(b, v.Int(), 10), '"')
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		b = append(b, '"')
		return append(strconv.AppendUint(b, v.Uint(), 10), '"')
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return appendJSONFloat(b, v.Float())
	case protoreflect.BytesKind:
		b = append(b, '"')
		if isIDField(fd.Name()) {
			b = hex.AppendEncode(b, v.Bytes())
		} else {
			b = base64.StdEncoding.AppendEncode(b, v.Bytes())
		}
		return append(b, '"')
	}
	return append(b, "null"...)
}

func isIDField(name protoreflect.Name) bool {
	return name == "trace_id" || name == "span_id" || name == "parent_span_id"
}

func appendJSONFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// appendJSONString appends s quoted. Only valid UTF-8 gets here: see marshal.
func appendJSONString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20 || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// idInJSON finds the ids of OTLP/JSON. It matches keys only: within a string the quotes would be escaped, and a string
// value is not followed by a colon.
var idInJSON = regexp.MustCompile(`"(traceId|spanId|parentSpanId)"\s*:\s*"([0-9a-fA-F]*)"`)

// parseJSON fills m from a line of OTLP/JSON.
func parseJSON(line []byte, m proto.Message) error {
	var bad error
	line = idInJSON.ReplaceAllFunc(line, func(match []byte) []byte {
		parts := idInJSON.FindSubmatch(match)
		id, err := hex.DecodeString(string(parts[2]))
		if err != nil {
			bad = fmt.Errorf("parse OTLP/JSON: %s %q: %v", parts[1], parts[2], err)
			return match
		}
		return fmt.Appendf(nil, `"%s":"%s"`, parts[1], base64.StdEncoding.EncodeToString(id))
	})
	if bad != nil {
		return bad
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(line, m); err != nil {
		return fmt.Errorf("parse OTLP/JSON: %v", err)
	}
	return nil
}
