package host

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"time"
)

const (
	maxConnections = 64
	// maxRequests bounds the work under way; a peer that sends more waits.
	maxRequests = 32
	// refreshCheck is how often podhost asks itself whether to look for private files of the host again.
	refreshCheck = 10 * time.Second
	// leaveTimeout is how long requests under way may take when podhost is told to leave.
	leaveTimeout = 15 * time.Second
)

// Run serves until Stop, then lets requests under way finish. ready is called when the socket listens.
func (h *Host) Run(ready func()) error {
	file, err := listenUnix(filepath.Join(h.home, "run/podhost.sock"), 128)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go reapOrphans(ctx)
	var serving, tending sync.WaitGroup
	tending.Add(1)
	go func() {
		defer tending.Done()
		h.tend(ctx)
	}()
	tending.Add(1)
	go func() {
		defer tending.Done()
		h.pool.Tend(ctx, h.isBusy)
	}()
	tending.Add(1)
	go func() {
		defer tending.Done()
		if err := h.prepare(); err != nil {
			h.log.Printf("prepare the host root: %v", err)
		}
		for h.sleep(refreshCheck) {
			if err := h.refresh(); err != nil {
				h.log.Printf("look for private files: %v", err)
			}
		}
	}()
	// It listens until it has left: whoever waits for that waits for the socket.
	defer listener.Close()
	go func() {
		<-h.stopping
		if unixListener, ok := listener.(*net.UnixListener); ok {
			unixListener.SetDeadline(time.Now())
		}
	}()
	ready()
	h.accept(listener, &serving)
	finished := make(chan struct{})
	go func() {
		serving.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(leaveTimeout):
		h.log.Printf("leaving with requests under way")
	}
	cancel()
	tending.Wait()
	h.close()
	return nil
}

// sleep reports false when podhost is leaving.
func (h *Host) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.stopping:
		return false
	}
}

func (h *Host) accept(listener net.Listener, serving *sync.WaitGroup) {
	work := make(chan struct{}, maxRequests)
	for {
		peer, err := listener.Accept()
		if err != nil {
			select {
			case <-h.stopping:
				return
			case <-time.After(50 * time.Millisecond):
				h.log.Printf("accept: %v", err)
				continue
			}
		}
		stream, ok := peer.(*net.UnixConn)
		if !ok || h.events.count() >= maxConnections || !trusted(stream) {
			peer.Close()
			continue
		}
		c := newConn(h, stream, work)
		h.events.join(c)
		serving.Add(1)
		go func() {
			defer serving.Done()
			c.serve()
		}()
	}
}
