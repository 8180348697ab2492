package vmtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A Route is what a fake does with one method and path.
type Route struct {
	// Body is nil for a request without one.
	Body *Schema
	// Do returns an error if the state does not allow the request.
	Do func(body map[string]any) error
	// Answer is sent with status 200; without one the status is 204.
	Answer string
}

// A Fault is what a fake does wrong, with the request of one path.
type Fault struct{ Kind, Path string }

// Booted is what a fake's machine logs when it boots.
const Booted = "the machine logs\n"

// Kinds of faults.
const (
	// Refuse answers with an error. Hang never answers. Endless never ends its answer. Die ends the program.
	Refuse, Hang, Endless, Die = "refuse", "hang", "endless", "die"
	// Mute answers the first three connections to the machine with their end; Babble answers CONNECT wrongly.
	Mute, Babble = "mute", "babble"
	// Restart is for fakes that watch over the machine: its kernel restarts.
	Restart = "restart"
)

// FaultIn returns the fault in the name of a program: NAME~KIND~PATH, where the path has dots for slashes.
func FaultIn(program string) Fault {
	parts := append(strings.Split(program, "~"), "", "")
	return Fault{parts[1], parts[2]}
}

// A Program is a fake that serves its API. It writes what happens to Log: "request METHOD PATH" and, if a
// request is wrong, "violation ...".
type Program struct {
	Routes map[string]Route
	Fault  Fault
	Log    io.Writer

	mu    sync.Mutex
	muted int
	// resets is how often the machine has dropped its connections.
	resets int
}

// Reset makes the machine drop its connections. The host learns it when it sends something. It is called by a
// Route.
func (p *Program) Reset() { p.resets++ }

func (p *Program) say(format string, args ...any) { fmt.Fprintf(p.Log, format+"\n", args...) }

// Serve answers requests, one after the other.
func (p *Program) Serve(listener net.Listener) error { return http.Serve(listener, p) }

func (p *Program) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != http.MethodGet {
		p.say("request %s %s", r.Method, r.URL.Path)
	}
	if path := p.Fault.Path; path != "" && strings.ReplaceAll(r.URL.Path[1:], "/", ".") == path {
		switch p.Fault.Kind {
		case Refuse:
			refuse(w, "the fake refuses\nthis \x1b[31mrequest")
			return
		case Hang:
			time.Sleep(time.Hour)
		case Endless:
			w.WriteHeader(http.StatusOK)
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case Die:
			os.Exit(3)
		}
	}
	if err := p.perform(w, r); err != nil {
		p.say("violation %s %s: %v", r.Method, r.URL.Path, err)
		refuse(w, err.Error())
	}
}

func (p *Program) perform(w http.ResponseWriter, r *http.Request) error {
	route, known := p.Routes[r.Method+" "+r.URL.Path]
	if !known {
		return fmt.Errorf("there is no such request")
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return err
	}
	var body map[string]any
	if route.Body == nil && len(text) > 0 {
		return fmt.Errorf("it has a body: %s", text)
	}
	if route.Body != nil {
		if r.Header.Get("Content-Type") != "application/json" {
			return fmt.Errorf("the content is %q", r.Header.Get("Content-Type"))
		}
		value, err := route.Body.Check(text)
		if err != nil {
			return err
		}
		body, _ = value.(map[string]any)
	}
	if route.Do != nil {
		if err := route.Do(body); err != nil {
			return err
		}
	}
	if route.Answer == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = io.WriteString(w, route.Answer)
	return err
}

func refuse(w http.ResponseWriter, message string) {
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(map[string]string{"fault_message": message})
}

// ServeVsock plays the vsock device: a machine that listens at a port and sends back what it gets.
func (p *Program) ServeVsock(path string, port int, isRunning func() bool) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.echo(conn, port, isRunning)
		}
	}()
	return nil
}

func (p *Program) echo(conn net.Conn, port int, isRunning func() bool) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	if line != fmt.Sprintf("CONNECT %d\n", port) {
		p.say("violation vsock: %q", line)
		return
	}
	p.mu.Lock()
	p.muted++
	isMute := p.Fault.Kind == Mute && p.muted <= 3 || !isRunning()
	resets := p.resets
	p.mu.Unlock()
	if isMute {
		return
	}
	if p.Fault.Kind == Babble {
		io.WriteString(conn, strings.Repeat("OK", 1<<20))
		return
	}
	fmt.Fprintf(conn, "OK 1073741824\n")
	for chunk := make([]byte, 4<<10); ; {
		n, err := reader.Read(chunk)
		p.mu.Lock()
		isReset := p.resets != resets
		p.mu.Unlock()
		if err != nil || isReset {
			return
		}
		conn.Write(chunk[:n])
	}
}
