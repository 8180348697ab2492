package standby

import (
	"errors"
	"io"
	"log"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// short is the quiet time of these tests.
const short = 20 * time.Millisecond

type fake struct{ isDead, isDiscarded atomic.Bool }

func (f *fake) IsAlive() bool { return !f.isDead.Load() }
func (f *fake) Discard()      { f.isDiscarded.Store(true) }

// factory remembers what it made.
type factory struct {
	mu   sync.Mutex
	made []*fake
	// before is called while a machine is made, and may fail.
	before func() error
}

func (f *factory) make() (Machine, error) {
	if f.before != nil {
		if err := f.before(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, &fake{})
	return f.made[len(f.made)-1], nil
}

func (f *factory) wish(kind string) *Wish { return &Wish{Kind: kind, Make: f.make} }

func (f *factory) all() []*fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*fake(nil), f.made...)
}

func newKeeper(t *testing.T) *Keeper {
	t.Helper()
	k := begin(true, short, log.New(io.Discard, "", 0))
	t.Cleanup(k.Close)
	return k
}

// taken waits until a machine of the kind is ready, and takes it.
func taken(t *testing.T, k *Keeper, kind string) Machine {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if machine := k.Take(kind); machine != nil {
			return machine
		}
	}
	t.Fatalf("no machine of kind %s became ready", kind)
	return nil
}

func untilMade(t *testing.T, f *factory) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); len(f.all()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no machine was made")
		}
	}
}

func TestAMachineWaitsForTheNextSandboxOfTheSameKind(t *testing.T) {
	k, f := newKeeper(t), &factory{}
	if k.Take("a") != nil {
		t.Fatal("a machine waits although none was needed")
	}
	k.Starting()(f.wish("a"))
	first := taken(t, k, "a")
	if k.Take("a") != nil {
		t.Fatal("one machine was taken twice")
	}
	k.Starting()(f.wish("a"))
	if second := taken(t, k, "a"); second == first {
		t.Fatal("one machine was taken twice")
	}
}

func TestAMachineOfAnotherKindIsReplaced(t *testing.T) {
	k, f, g := newKeeper(t), &factory{}, &factory{}
	k.Starting()(f.wish("a"))
	untilMade(t, f)
	k.Starting()(g.wish("b"))
	taken(t, k, "b")
	if !f.all()[0].isDiscarded.Load() {
		t.Fatal("the machine of the former kind still waits")
	}
}

func TestAMachineStaysWhenNothingIsLeftToMakeTheNextKindFrom(t *testing.T) {
	k, f, g := newKeeper(t), &factory{}, &factory{}
	k.Starting()(f.wish("a"))
	untilMade(t, f)
	asked := make(chan struct{})
	gone := g.wish("b")
	gone.IsThere = func() bool { close(asked); return false }
	k.Starting()(gone)
	<-asked
	taken(t, k, "a")
	if f.all()[0].isDiscarded.Load() || len(g.all()) > 0 {
		t.Fatal("the machine was given up for one that cannot be made")
	}
	// The kind that is kept stays the same, too.
	k.Starting()(f.wish("a"))
	taken(t, k, "a")
}

func TestAForgottenKindIsNotKept(t *testing.T) {
	k, f := newKeeper(t), &factory{}
	k.Starting()(f.wish("a"))
	untilMade(t, f)
	k.making.Lock()
	k.making.Unlock()
	k.Forget("b")
	if f.all()[0].isDiscarded.Load() {
		t.Fatal("a machine of another kind was ended")
	}
	k.Forget("a")
	if k.Take("a") != nil || !f.all()[0].isDiscarded.Load() {
		t.Fatal("the machine still waits")
	}
	time.Sleep(3 * short)
	if len(f.all()) != 1 {
		t.Fatal("another one was made")
	}
}

func TestAMachineThatIsForgottenWhileItIsMadeEnds(t *testing.T) {
	k, f := newKeeper(t), &factory{}
	making, finish := make(chan struct{}), make(chan struct{})
	f.before = func() error {
		close(making)
		<-finish
		return nil
	}
	k.Starting()(f.wish("a"))
	<-making
	k.Forget("a")
	close(finish)
	untilMade(t, f)
	k.making.Lock()
	k.making.Unlock()
	if k.Take("a") != nil || !f.all()[0].isDiscarded.Load() {
		t.Fatal("the machine waits")
	}
}

func TestNoMachineIsMadeWhileSandboxesStart(t *testing.T) {
	k, f := newKeeper(t), &factory{}
	k.Starting()(f.wish("a"))
	started := k.Starting()
	time.Sleep(3 * short)
	if len(f.all()) > 0 {
		t.Fatal("a machine was made while a sandbox started")
	}
	started(f.wish("a"))
	taken(t, k, "a")
}

func TestAMachineThatHasEndedIsNotTaken(t *testing.T) {
	k, f := newKeeper(t), &factory{}
	k.Starting()(f.wish("a"))
	untilMade(t, f)
	f.all()[0].isDead.Store(true)
	k.making.Lock()
	k.making.Unlock()
	if k.Take("a") != nil || !f.all()[0].isDiscarded.Load() {
		t.Fatal("a machine that has ended was taken, or is still kept")
	}
}

func TestAFailureIsTriedAgainWhenTheNextSandboxStarts(t *testing.T) {
	k, f := newKeeper(t), &factory{}
	tries := atomic.Int32{}
	f.before = func() error {
		if tries.Add(1) == 1 {
			return errors.New("no space")
		}
		return nil
	}
	k.Starting()(f.wish("a"))
	time.Sleep(4 * short)
	if found := tries.Load(); found != 1 {
		t.Fatalf("it was tried %d times", found)
	}
	k.Starting()(f.wish("a"))
	taken(t, k, "a")
}

func TestDropWaitsForAMachineThatIsBeingMade(t *testing.T) {
	k, f := newKeeper(t), &factory{}
	making, finish := make(chan struct{}), make(chan struct{})
	f.before = func() error {
		close(making)
		<-finish
		return nil
	}
	k.Starting()(f.wish("a"))
	<-making
	dropped := make(chan struct{})
	go func() {
		k.Drop()
		close(dropped)
	}()
	select {
	case <-dropped:
		t.Fatal("Drop returned while a machine was being made")
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	<-dropped
	if k.Take("a") != nil || !f.all()[0].isDiscarded.Load() {
		t.Fatal("the machine that was being made waits")
	}
}

func TestCloseEndsTheMachineThatWaits(t *testing.T) {
	k, f := begin(true, short, log.New(io.Discard, "", 0)), &factory{}
	k.Starting()(f.wish("a"))
	untilMade(t, f)
	k.Close()
	k.Close()
	if !f.all()[0].isDiscarded.Load() {
		t.Fatal("the machine still waits")
	}
	k.Starting()(f.wish("a"))
	time.Sleep(2 * short)
	if len(f.all()) != 1 {
		t.Fatal("a closed Keeper has made a machine")
	}
}

func TestWithoutMachinesNoneIsMade(t *testing.T) {
	k, f := begin(false, short, log.New(io.Discard, "", 0)), &factory{}
	k.Starting()(f.wish("a"))
	time.Sleep(2 * short)
	if len(f.all()) > 0 || k.Take("a") != nil {
		t.Fatal("a machine was made")
	}
	k.Close()
}
