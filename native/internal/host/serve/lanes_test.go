package serve

import (
	"errors"
	"testing"
	"time"

	"agentpod/native/internal/hostproto"
)

func TestLongRequestsDoNotBlockOrdinaryOnes(t *testing.T) {
	lanes, stopping := newLanes(), make(chan struct{})
	work := make(chan struct{}, 1)
	take := func() *slot {
		select {
		case work <- struct{}{}:
		case <-time.After(5 * time.Second):
			t.Fatal("no place is free")
		}
		return &slot{work: work}
	}
	var ends []func()
	for i := 0; i < maxLong; i++ {
		place := take()
		done, err := lanes.enterLong(place, stopping)
		if err != nil {
			t.Fatal(err)
		}
		place.release()
		ends = append(ends, done)
	}
	waiting := make(chan error, maxWaiting)
	for i := 0; i < maxWaiting; i++ {
		place := take()
		go func() {
			done, err := lanes.enterLong(place, stopping)
			if err == nil {
				done()
			}
			waiting <- err
		}()
	}
	place := take()
	var busy *hostproto.Error
	if _, err := lanes.enterLong(place, stopping); !errors.As(err, &busy) || busy.Reason != "host.busy" {
		t.Errorf("one more: %v", err)
	}
	place.release()
	ends[0]()
	if err := <-waiting; err != nil {
		t.Errorf("when a place is free: %v", err)
	}
	for _, end := range ends[1:] {
		end()
	}
	for i := 1; i < maxWaiting; i++ {
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	}
}
