package egress

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxNames bounds the addressTable, because programs inside can ask for any number of names.
	maxNames = 65536
	// heldFor is how long an answer is valid. An address that was given out more recently keeps its name.
	heldFor = 10 * time.Minute
	// usable is the number of usable addresses in 256: .0 and .255 look like a network and a broadcast
	// address to careful programs.
	usable = 254
)

// synthetic is the range of addresses that stand for names. It is reserved for benchmarks of network devices,
// so no real host has such an address.
var synthetic = netip.MustParsePrefix("198.18.0.0/15")

func isSynthetic(address netip.Addr) bool { return synthetic.Contains(address) }

// An addressTable gives names addresses. The n-th entry has the n-th usable address, so an address is found
// without a search.
type addressTable struct {
	now func() time.Time

	mu      sync.Mutex
	entries []entry
	names   map[string]int32
	// newest and oldest are the ends of a list through the entries, by last use; none means no entry.
	newest, oldest int32
	most           int
}

const none = -1

type entry struct {
	name         string
	used         time.Time
	newer, older int32
}

func newAddressTable(now func() time.Time) *addressTable {
	return &addressTable{now: now, names: map[string]int32{}, newest: none, oldest: none, most: maxNames}
}

// addressOf returns the address that stands for the name. It fails when every address is in use.
func (t *addressTable) addressOf(name string) (netip.Addr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.names[name]
	if !known {
		var ok bool
		if n, ok = t.freeEntry(); !ok {
			return netip.Addr{}, false
		}
		t.entries[n].name = name
		t.names[name] = n
	}
	t.touch(n)
	return addressAt(n), true
}

// nameOf returns the name that an address stands for.
func (t *addressTable) nameOf(address netip.Addr) (string, bool) {
	n, ok := indexOf(address)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ok || int(n) >= len(t.entries) {
		return "", false
	}
	t.touch(n)
	return t.entries[n].name, true
}

// freeEntry returns an entry without a name: a new one, or the one that was used longest ago.
func (t *addressTable) freeEntry() (int32, bool) {
	if len(t.entries) < t.most {
		n := int32(len(t.entries))
		t.entries = append(t.entries, entry{newer: none, older: none})
		t.link(n)
		return n, true
	}
	n := t.oldest
	if t.now().Sub(t.entries[n].used) < heldFor {
		return none, false
	}
	delete(t.names, t.entries[n].name)
	return n, true
}

// touch makes an entry the newest.
func (t *addressTable) touch(n int32) {
	t.entries[n].used = t.now()
	if t.newest == n {
		return
	}
	s := t.entries[n]
	t.entries[s.newer].older = s.older
	if s.older == none {
		t.oldest = s.newer
	} else {
		t.entries[s.older].newer = s.newer
	}
	t.link(n)
}

// link puts an entry at the newest end.
func (t *addressTable) link(n int32) {
	t.entries[n].newer, t.entries[n].older = none, t.newest
	if t.newest == none {
		t.oldest = n
	} else {
		t.entries[t.newest].newer = n
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

func indexOf(address netip.Addr) (n int32, ok bool) {
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
