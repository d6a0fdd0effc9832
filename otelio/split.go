package otelio

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The OTLP requests of all signals have one form: field 1 lists resources, whose field 2 lists scopes, whose field 2 lists
// the items: spans, metrics or log records.
const (
	fieldResources protoreflect.FieldNumber = 1
	fieldInner     protoreflect.FieldNumber = 2
)

// countItems returns how many items a request holds.
func countItems(m proto.Message) int {
	n := 0
	eachScope(m, func(items protoreflect.List) { n += items.Len() })
	return n
}

// keepItems returns a copy of a request with the items from (inclusive) to (exclusive) only.
func keepItems(m proto.Message, from, to int) proto.Message {
	m = proto.Clone(m)
	i := 0
	eachScope(m, func(items protoreflect.List) {
		kept := 0
		for j := range items.Len() {
			if i >= from && i < to {
				items.Set(kept, items.Get(j))
				kept++
			}
			i++
		}
		items.Truncate(kept)
	})
	return m
}

// eachScope calls f with the items of every scope of a request.
func eachScope(m proto.Message, f func(items protoreflect.List)) {
	inner := func(m protoreflect.Message, number protoreflect.FieldNumber) protoreflect.List {
		return m.Mutable(m.Descriptor().Fields().ByNumber(number)).List()
	}
	resources := inner(m.ProtoReflect(), fieldResources)
	for i := range resources.Len() {
		scopes := inner(resources.Get(i).Message(), fieldInner)
		for j := range scopes.Len() {
			f(inner(scopes.Get(j).Message(), fieldInner))
		}
	}
}
