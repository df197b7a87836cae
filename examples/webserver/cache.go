package main

import (
	"container/list"
	"sync"
	"time"
)

// cache keeps the files that were requested last, up to a number of bytes.
type cache struct {
	limit int64
	fresh time.Duration

	mu     sync.Mutex // guards the fields below
	files  map[string]*list.Element
	byAge  list.List // of *cached; the file that was requested last is in front
	bytes  int64
	hits   uint64
	misses uint64
}

// cached is a file in the cache.
type cached struct {
	path string
	file *file
}

// overhead is the approximate memory of a cached file beyond its data.
const overhead = 1024

func (c cached) cost() int64 { return overhead + int64(len(c.path)+len(c.file.data)) }

func newCache(limit int64, fresh time.Duration) *cache {
	return &cache{limit: limit, fresh: fresh, files: map[string]*list.Element{}}
}

// get returns the file of that path, and whether it may be used as it is. If it
// is no longer fresh, only the first caller gets false, and must compare it
// with the disk. For other callers it is fresh until then.
func (c *cache) get(path string, now time.Duration) (f *file, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.files[path]
	if !ok {
		c.misses++
		return nil, false
	}
	c.hits++
	c.byAge.MoveToFront(e)
	f = e.Value.(cached).file
	if now-time.Duration(f.checked.Load()) < c.fresh {
		return f, true
	}
	f.checked.Store(int64(now))
	return f, false
}

// last returns the last known version of the file of that path, or nil if it is
// not kept.
func (c *cache) last(path string) *file {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.files[path]; ok {
		return e.Value.(cached).file
	}
	return nil
}

// put keeps a file, in place of an older one of that path, and drops the files
// that were not requested for longest.
func (c *cache) put(path string, f *file, now time.Duration) {
	f.checked.Store(int64(now))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.files[path])
	e := c.byAge.PushFront(cached{path, f})
	c.files[path] = e
	c.bytes += e.Value.(cached).cost()
	for c.bytes > c.limit {
		c.remove(c.byAge.Back())
	}
}

// drop drops the file of that path.
func (c *cache) drop(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.files[path])
}

func (c *cache) remove(e *list.Element) {
	if e == nil {
		return
	}
	old := c.byAge.Remove(e).(cached)
	delete(c.files, old.path)
	c.bytes -= old.cost()
}

// counts returns how often a file was found and not found.
func (c *cache) counts() (hits, misses uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits, c.misses
}
