package leda

import (
	"fmt"
	"math"
	"slices"

	"github.com/golda-dev/golda/controller"
)

// MostPools is how many pools a script may make.
const MostPools = 1 << 10

// PoolGroup has the methods about pools of threads, which are workers here.
type PoolGroup struct {
	l    *Leda
	made int // number of pools made
	last int // the number in the last pool's name
}

// New (A.2.1) makes a pool with that many workers: "leda-1", "leda-2" and so
// on, skipping the names of stages and groups. A pool has at least one worker,
// because the commands of a stage wait for ever if its pool has none. New
// returns "" after [MostPools] pools, outside of a call, and in a script that
// governs a group, which has only its own pool.
//
// The dissertation's listings call it without a number and then add two; here
// that is New(2). LStage made a hidden worker of its own besides (L10); here
// there is none.
func (g *PoolGroup) New(numThreads int) Pool {
	if g.made >= MostPools || g.l.now.Group != "" {
		return ""
	}
	p := g.free()
	if g.l.resize(p, numThreads, because("pool.new(%d)", numThreads)) != nil {
		return ""
	}
	g.made++
	return p
}

// free returns the next free name. A pool of that name that an earlier policy
// has left is taken over.
func (g *PoolGroup) free() Pool {
	for {
		g.last++
		p := Pool(fmt.Sprintf("leda-%d", g.last))
		is := g.l.now.Pool(string(p))
		if g.l.at(Stage(p)) < 0 && (is == nil || !is.Own && !is.Group) && !slices.Contains(g.l.now.Taken, string(p)) {
			return p
		}
	}
}

// SetPool (A.2.2) sets whose workers visit a stage. The stage's name gives it
// back its own pool: SetPool(Pool(st), st).
//
// The appendix names the pool first, the listings the stage; here the compiler
// checks the order. In LStage waiting commands stayed with the old pool (L10);
// here a queue belongs to its stage and moves with it.
func (g *PoolGroup) SetPool(p Pool, st Stage) error {
	id, err := g.l.find("pool.setPool", st)
	if err != nil {
		return err
	}
	if err := g.l.ready("pool.setPool", p); err != nil {
		return err
	}
	g.l.placed[st] = true
	return g.l.bind(id, p, because("pool.setPool"))
}

// Add (A.2.3) makes a pool larger, as far as its bounds allow.
//
// A listing calls it without a pool, meaning the global one: that is [Global]
// here.
func (g *PoolGroup) Add(p Pool, numThreads int) error {
	return g.change("pool.add", p, numThreads, 1)
}

// Kill (A.2.4) makes a pool smaller, as far as its bounds allow. Workers that
// are removed finish their batch first.
//
// It never worked in LStage: no thread ever ended, and it could crash (L8).
func (g *PoolGroup) Kill(p Pool, numThreads int) error {
	return g.change("pool.kill", p, numThreads, -1)
}

func (g *PoolGroup) change(method string, p Pool, n, sign int) error {
	c, ok := g.l.sizeOf(p)
	if !ok {
		return unknownPool(method, p)
	}
	if n < 0 {
		return negative(method, n)
	}
	return g.l.resize(p, add(c.workers, sign*n), because("%s(%d) with %d", method, n, c.workers))
}

// GetPool (A.2.5) returns the pool whose workers visit a stage.
func (g *PoolGroup) GetPool(st Stage) Pool { return read(g.l, st, g.l.poolOf) }

// GetThreadsCount (A.2.6) returns the set number of workers of a pool, busy or
// not.
//
// In LStage the number never fell (L8).
func (g *PoolGroup) GetThreadsCount(p Pool) int {
	c, _ := g.l.sizeOf(p)
	return c.workers
}

// size is how many workers a pool has, and its bounds.
type size struct{ workers, least, most int }

// sizeOf returns the size of a pool. The global pool has a size before it is
// made.
func (l *Leda) sizeOf(p Pool) (c size, ok bool) {
	p = l.real(p)
	if is := l.now.Pool(string(p)); is != nil {
		return size{is.Workers, is.MinWorkers, is.MaxWorkers}, true
	}
	if i := l.at(Stage(p)); i >= 0 { // the snapshot has no pools
		st := &l.now.Stages[i]
		return size{st.Workers, st.MinWorkers, st.MaxWorkers}, true
	}
	return size{0, 1, controller.MostWorkers}, p == Global
}

// ready makes sure that a pool exists before a stage is bound to it.
func (l *Leda) ready(method string, p Pool) error {
	switch _, ok := l.sizeOf(p); {
	case !ok || p == "":
		return unknownPool(method, p)
	case !l.exists(p):
		return l.resize(p, 1, "the global pool has one worker if none are added")
	default:
		return nil
	}
}

// exists reports whether a pool exists. A snapshot may have stages without
// their pools.
func (l *Leda) exists(p Pool) bool {
	return l.now.Pool(string(l.real(p))) != nil || l.at(Stage(p)) >= 0
}

func (l *Leda) resize(p Pool, n int, why string) error {
	return l.decide(func(d *controller.Decisions) { controller.KnobWorkers.SetPool(d, string(l.real(p)), n, why) })
}

func (l *Leda) bind(id controller.StageID, p Pool, why string) error {
	return l.decide(func(d *controller.Decisions) { controller.KnobPool.Set(d, id, string(l.real(p)), why) })
}

// real returns the pool that a script means: in a script that governs a group,
// Global is the group's pool.
func (l *Leda) real(p Pool) Pool {
	if p == Global && l.now.Group != "" {
		return Pool(l.now.Group)
	}
	return p
}

// poolOf returns the pool of a stage, now or at the end of the call.
func (l *Leda) poolOf(st *controller.StageStats) Pool {
	if l.homeless(st) {
		return l.real(Global)
	}
	return poolOf(st)
}

// homeless reports whether a stage belongs in the global pool.
func (l *Leda) homeless(st *controller.StageStats) bool {
	if l.placed[nameOf(st)] || st.Blocking || st.Paused || l.tooFew(st) {
		return false
	}
	p := l.now.Pool(string(poolOf(st)))
	return p == nil || !p.Group
}

// tooFew reports whether a stage outside the global pool asks for more workers
// than that pool has.
func (l *Leda) tooFew(st *controller.StageStats) bool {
	c, _ := l.sizeOf(Global)
	return st.Needs > max(c.workers, 1) && poolOf(st) != l.real(Global)
}

// add adds two numbers and saturates at the limits of int.
func add(a, b int) int {
	switch c := a + b; {
	case b > 0 && c < a:
		return math.MaxInt
	case b < 0 && c > a:
		return math.MinInt
	default:
		return c
	}
}
