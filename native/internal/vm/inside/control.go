package inside

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"agentpod/native/internal/vm/order"

	"golang.org/x/sys/unix"
)

const (
	// maxRequest bounds a request of the supervisor.
	maxRequest = 256 << 10
	// requestTimeout bounds how long the supervisor may take to send one.
	requestTimeout = 10 * time.Second
	// goodbye is how long the answer to Wait may take to leave the machine.
	goodbye = 200 * time.Millisecond
)

// answer answers the one request of a connection.
func (m *machine) answer(conn *net.UnixConn) {
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(requestTimeout))
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	conn.SetReadDeadline(time.Time{})
	var request order.Request
	if err == nil {
		err = json.Unmarshal(line, &request)
	}
	var answer order.Answer
	if err == nil {
		answer, err = m.perform(request)
	}
	if err != nil {
		answer = order.Answer{Error: err.Error()}
	}
	json.NewEncoder(conn).Encode(answer)
	conn.CloseWrite()
	if request.Op == order.Wait && err == nil {
		time.Sleep(goodbye)
		unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
}

func (m *machine) perform(request order.Request) (answer order.Answer, err error) {
	if request.Op == order.Wait {
		<-m.ended
		return order.Answer{Code: m.code}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if request.Identity == nil && needsIdentity(request.Op) {
		return answer, fmt.Errorf("%s needs an identity", request.Op)
	}
	switch request.Op {
	case order.Ping:
	case order.Begin:
		if request.Sandbox == nil {
			return answer, fmt.Errorf("%s needs a sandbox", request.Op)
		}
		if err = renew(m, request.Identity); err == nil {
			answer.Levels, err = m.begin(*request.Identity, *request.Sandbox)
		}
	case order.Renew:
		if err = renew(m, request.Identity); err == nil {
			err = m.continueAs(request.Identity)
		}
	case order.Prepare:
		if err = renew(m, request.Identity); err == nil {
			err = m.prepareAs(request.Identity)
		}
	case order.Sync:
		err = m.sync()
	case order.Freeze:
		err = m.freeze()
	case order.Thaw:
		fault := setClock(request.Identity.ClockNs)
		if err = m.thaw(); err == nil {
			err = fault
		}
	default:
		err = fmt.Errorf("there is no operation %q", request.Op)
	}
	answer.Network = m.run.Network
	return answer, err
}

func needsIdentity(op string) bool {
	return op == order.Begin || op == order.Renew || op == order.Prepare || op == order.Thaw
}
