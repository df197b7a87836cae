package pipeline

import (
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/link"
)

// operated is a pipeline as its operator sees it, see [link.Operated].
type operated struct{ p *Pipeline }

func init() { //nolint:gochecknoinits // a pipeline has no methods for its operator
	link.Operate = func(pipeline any) link.Operated { return operated{pipeline.(*Pipeline)} }
}

func (o operated) Began() time.Time { return o.p.host.Base }

func (o operated) Traits() []link.Traits {
	stages := o.p.stages().stages
	all := make([]link.Traits, len(stages))
	for i, c := range stages {
		all[i] = link.Traits{Name: c.Name(), Takes: c.Spec().Takes(), Group: o.groupOf(c), Keyed: c.Spec().IsKeyed()}
	}
	return all
}

func (o operated) groupOf(c *engine.Core) string {
	for _, g := range o.p.groups {
		if slices.Contains(g.stages, c) {
			return g.name
		}
	}
	return ""
}

func (o operated) Busy() []link.Busy {
	pools := o.p.pools.list()
	for _, c := range o.p.stages().stages {
		if !slices.Contains(pools, c.Pool) {
			pools = append(pools, c.Pool)
		}
	}
	return engine.Busy(pools)
}
