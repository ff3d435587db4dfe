package envoy

import (
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata tells what was asked, and what the limits that were kept to have to hand on. Where both use a name, what was
// asked goes before; among limits the first does.
func (s *Service) metadata(w *work, req *ratelimitv3.RateLimitRequest) *structpb.Struct {
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(valid(req.GetDomain()))}
	descriptors := make([]*structpb.Value, 0, len(req.GetDescriptors()))
	for _, d := range req.GetDescriptors() {
		descriptors = append(descriptors, structpb.NewStructValue(described(d)))
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: descriptors})
	if hits := req.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	if exceeded := w.quotas(s.quota); len(exceeded) > 0 {
		numbers := make([]*structpb.Value, len(exceeded))
		for i, n := range exceeded {
			numbers[i] = structpb.NewNumberValue(float64(n))
		}
		fields["quotaModeViolations"] = structpb.NewListValue(&structpb.ListValue{Values: numbers})
	}
	quotas := false
	for i := range w.asked {
		a := &w.asked[i]
		if a.limit == nil {
			continue
		}
		quotas = quotas || a.limit.quota
		if w.exceeded(a) {
			continue
		}
		for name, v := range a.limit.metadata.GetFields() {
			if fields[name] == nil {
				fields[name] = v
			}
		}
	}
	fields["quotaModeEnabled"] = structpb.NewBoolValue(quotas)
	return &structpb.Struct{Fields: fields}
}

// described is a descriptor as metadata tells it.
func described(d *commonv3.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, 0, len(d.GetEntries()))
	for _, e := range d.GetEntries() {
		entries = append(entries, structpb.NewStringValue(valid(e.GetKey()+"="+e.GetValue())))
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if d.GetLimit() != nil {
		// The text of a message has spaces that come and go from build to build.
		fields["limit"] = structpb.NewStringValue(strings.ReplaceAll(d.GetLimit().String(), "  ", " "))
	}
	if hits := d.GetHitsAddend(); hits != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}

// valid is a text that the wire carries.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
