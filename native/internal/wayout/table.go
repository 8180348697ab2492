package wayout

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxNames bounds the table: what runs inside can ask for as many names as it likes.
	maxNames = 65536
	// heldFor is how long an answer is good for. An address that was given out that recently keeps its name.
	heldFor = 10 * time.Minute
	// usable addresses there are in 256: .0 and .255 look like a network and a broadcast to careful programs.
	usable = 254
)

// synthetic is the range of addresses that stand for names. It is set aside for benchmarks of network devices, and nobody lives there.
var synthetic = netip.MustParsePrefix("198.18.0.0/15")

func isSynthetic(address netip.Addr) bool { return synthetic.Contains(address) }

// A table gives names addresses. The n-th slot has the n-th usable address, so an address is found without a search.
type table struct {
	now func() time.Time

	mu    sync.Mutex
	slots []slot
	names map[string]int32
	// newest and oldest are the ends of a list through the slots, by last use; none is no slot.
	newest, oldest int32
	most           int
}

const none = -1

type slot struct {
	name         string
	used         time.Time
	newer, older int32
}

func newTable(now func() time.Time) *table {
	return &table{now: now, names: map[string]int32{}, newest: none, oldest: none, most: maxNames}
}

// addressOf returns the address that stands for the name. It fails when every address is in use.
func (t *table) addressOf(name string) (netip.Addr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.names[name]
	if !known {
		var ok bool
		if n, ok = t.freeSlot(); !ok {
			return netip.Addr{}, false
		}
		t.slots[n].name = name
		t.names[name] = n
	}
	t.touch(n)
	return addressAt(n), true
}

// nameOf returns what an address stands for.
func (t *table) nameOf(address netip.Addr) (string, bool) {
	n, ok := slotOf(address)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ok || int(n) >= len(t.slots) {
		return "", false
	}
	t.touch(n)
	return t.slots[n].name, true
}

// freeSlot returns a slot that is in no list and has no name: a new one, or the one that was used longest ago.
func (t *table) freeSlot() (int32, bool) {
	if len(t.slots) < t.most {
		n := int32(len(t.slots))
		t.slots = append(t.slots, slot{newer: none, older: none})
		t.link(n)
		return n, true
	}
	n := t.oldest
	if t.now().Sub(t.slots[n].used) < heldFor {
		return none, false
	}
	delete(t.names, t.slots[n].name)
	return n, true
}

// touch makes a slot the newest.
func (t *table) touch(n int32) {
	t.slots[n].used = t.now()
	if t.newest == n {
		return
	}
	s := t.slots[n]
	t.slots[s.newer].older = s.older
	if s.older == none {
		t.oldest = s.newer
	} else {
		t.slots[s.older].newer = s.newer
	}
	t.link(n)
}

// link puts a slot at the newest end.
func (t *table) link(n int32) {
	t.slots[n].newer, t.slots[n].older = none, t.newest
	if t.newest == none {
		t.oldest = n
	} else {
		t.slots[t.newest].newer = n
	}
	t.newest = n
}

func addressAt(n int32) netip.Addr {
	first := synthetic.Addr().As4()
	number := binary.BigEndian.Uint32(first[:]) + uint32(n)/usable*256 + uint32(n)%usable + 1
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], number)
	return netip.AddrFrom4(address)
}

func slotOf(address netip.Addr) (n int32, ok bool) {
	if !isSynthetic(address) {
		return none, false
	}
	first, own := synthetic.Addr().As4(), address.As4()
	offset := binary.BigEndian.Uint32(own[:]) - binary.BigEndian.Uint32(first[:])
	if last := offset % 256; last == 0 || last == 255 {
		return none, false
	}
	return int32(offset/256*usable + offset%256 - 1), true
}
