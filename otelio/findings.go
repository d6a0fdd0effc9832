package otelio

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/ptlaunch/ptlaunch/internal/detect"
)

// checkpointMode is the value of pytorch.checkpoint.mode.
func checkpointMode(c *detect.Checkpoint) string {
	if c.Background {
		return "background"
	}
	return "blocking"
}

// checkpointAttributes are those of a checkpoint.write span. What is not known is left out.
func (s *spans) checkpointAttributes(c *detect.Checkpoint) []attribute.KeyValue {
	kv := append(s.common(c.OfRank, c.Rank),
		attribute.Int64("pytorch.checkpoint.size", c.Size),
		attribute.String("pytorch.checkpoint.mode", checkpointMode(c)),
		attribute.Float64("pytorch.checkpoint.blocked_time", c.Blocked.Seconds()))
	if c.Files > 0 {
		kv = append(kv, attribute.Int("pytorch.checkpoint.files", c.Files))
	}
	if d := c.End - c.Start; d > 0 {
		kv = append(kv, attribute.Float64("pytorch.checkpoint.throughput", float64(c.Size)/d.Seconds()))
	}
	if c.Durable != nil {
		kv = append(kv, attribute.Bool("pytorch.checkpoint.durable", *c.Durable))
	}
	kv = putString(kv, "file.path", c.Path)
	kv = putString(kv, "system.filesystem.type", c.FSType)
	kv = putString(kv, "system.filesystem.mountpoint", c.Mountpoint)
	return putString(kv, "system.device", c.Device)
}

// stallAttributes are those of a training.stall span, or of a piece of one.
func (s *spans) stallAttributes(st *detect.Stall, lost, span time.Duration) []attribute.KeyValue {
	kv := append(s.common(st.OfRank, st.Rank),
		attribute.String("pytorch.phase", string(st.Phase)),
		attribute.String("pytorch.stall.cause", string(st.Cause)),
		attribute.Float64("pytorch.stall.lost_time", lost.Seconds()))
	if span > 0 {
		kv = append(kv, attribute.Float64("pytorch.stall.share", min(1, lost.Seconds()/span.Seconds())))
	}
	kv = putString(kv, "pytorch.stall.culprit", st.Culprit)
	kv = putString(kv, "pytorch.stall.confidence", string(st.Confidence))
	kv = putStrings(kv, "pytorch.stall.evidence", st.Evidence)
	return putStrings(kv, "pytorch.stall.caveats", st.Caveats)
}

// putString adds a text, unless it is empty: unknown is absent.
func putString(kv []attribute.KeyValue, key, value string) []attribute.KeyValue {
	if value == "" {
		return kv
	}
	return append(kv, attribute.String(key, value))
}

func putStrings(kv []attribute.KeyValue, key string, values []string) []attribute.KeyValue {
	if len(values) == 0 {
		return kv
	}
	return append(kv, attribute.StringSlice(key, values))
}
