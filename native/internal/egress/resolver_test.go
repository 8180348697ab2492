package egress

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// query is a packet for a name with exactly these labels.
func query(kind uint16, labels ...string) []byte {
	packet := []byte{0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range labels {
		packet = append(append(packet, byte(len(label))), label...)
	}
	packet = binary.BigEndian.AppendUint16(append(packet, 0), kind)
	return binary.BigEndian.AppendUint16(packet, classIN)
}

func ask(name string, kind uint16) []byte { return query(kind, strings.Split(name, ".")...) }

// read parses an answer with at most one record.
func read(t *testing.T, reply []byte) (code int, data []byte) {
	t.Helper()
	if len(reply) < headerLength || reply[0] != 0x12 || reply[1] != 0x34 || reply[2]&0x80 == 0 {
		t.Fatalf("no answer: %x", reply)
	}
	if reply[7] == 0 {
		return int(reply[3] & 15), nil
	}
	rest := reply[headerLength:]
	for rest[0] != 0 {
		rest = rest[1+rest[0]:]
	}
	rest = rest[5:]
	if binary.BigEndian.Uint16(rest) != 0xc00c || binary.BigEndian.Uint32(rest[6:]) != timeToLive {
		t.Fatalf("the record is %x", rest)
	}
	return int(reply[3] & 15), rest[12 : 12+binary.BigEndian.Uint16(rest[10:])]
}

func newResolver() *resolver { return &resolver{names: newAddressTable(time.Now)} }

// NET-2
func TestOnlyValidNamesHaveAnAddress(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, try := range []struct {
		labels []string
		code   int
	}{
		{[]string{"example", "com"}, 0},
		{[]string{"EXAMPLE", "Com"}, 0},
		{[]string{"single"}, 0},
		{[]string{"xn--bcher-kva", "example"}, 0},
		{[]string{"a-b", "0", "com"}, 0},
		{[]string{long, long, long, strings.Repeat("b", 61)}, 0},
		{[]string{long, long, long, strings.Repeat("b", 62)}, codeFormat},
		{[]string{strings.Repeat("a", 64)}, codeFormat},
		{nil, codeNoSuchName},
		{[]string{"-a", "com"}, codeNoSuchName},
		{[]string{"a-", "com"}, codeNoSuchName},
		{[]string{"a_b", "com"}, codeNoSuchName},
		{[]string{"a b", "com"}, codeNoSuchName},
		{[]string{"a.b", "com"}, codeNoSuchName},
		{[]string{"a\x00b", "com"}, codeNoSuchName},
		{[]string{"a\nb", "com"}, codeNoSuchName},
		{[]string{"b\xc3\xbccher", "com"}, codeNoSuchName},
		{[]string{"*", "example", "com"}, codeNoSuchName},
		{[]string{"1", "2", "3", "4"}, codeNoSuchName},
		{[]string{"127", "1"}, codeNoSuchName},
		{[]string{"2130706433"}, codeNoSuchName},
		{[]string{"0x7f000001"}, codeNoSuchName},
		{[]string{"a", "0x"}, codeNoSuchName},
	} {
		code, data := read(t, newResolver().answer(nil, query(typeA, try.labels...)))
		if code != try.code || (len(data) == 4) != (code == 0) {
			t.Errorf("%q: code %d, data %v, want %d", try.labels, code, data, try.code)
		}
		if code == 0 && !isSynthetic(netip.AddrFrom4([4]byte{data[0], data[1], data[2], data[3]})) {
			t.Errorf("%q is at %v", try.labels, data)
		}
	}
}

func TestTheResolverAnswersEachTypeOfQuestion(t *testing.T) {
	r := newResolver()
	for _, try := range []struct {
		name string
		kind uint16
		code int
		data string
	}{
		{"example.com", typeAAAA, 0, ""}, {"example.com", 16, 0, ""}, {"example.com", 65, 0, ""},
		{"example.com", typeANY, codeNotImplemented, ""}, {"example.com", 252, codeNotImplemented, ""}, {"example.com", typeOPT, codeNotImplemented, ""},
		{"localhost", typeA, 0, "\x7f\x00\x00\x01"}, {"a.LocalHost", typeA, 0, "\x7f\x00\x00\x01"},
		{"localhost", typeAAAA, 0, string(net.IPv6loopback)}, {"localhost", 16, 0, ""},
		{"1.0.0.127.in-addr.arpa", typePTR, codeNoSuchName, ""}, {"1.0.18.198.in-addr.arpa", typePTR, codeNoSuchName, ""},
		{"example.com", typePTR, codeNoSuchName, ""}, {"1.2.3.4.5.in-addr.arpa", typePTR, codeNoSuchName, ""},
	} {
		if code, data := read(t, r.answer(nil, ask(try.name, try.kind))); code != try.code || string(data) != try.data {
			t.Errorf("%s %d: %d %x", try.name, try.kind, code, data)
		}
	}
	// An address leads back to its name, and to nothing else.
	_, data := read(t, r.answer(nil, ask("Known.Example", typeA)))
	reverse := fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", data[3], data[2], data[1], data[0])
	if code, back := read(t, r.answer(nil, ask(reverse, typePTR))); code != 0 || string(back) != "\x05known\x07example\x00" {
		t.Errorf("%s: %d %q", reverse, code, back)
	}
	if code, _ := read(t, r.answer(nil, ask("0"+reverse, typePTR))); code != codeNoSuchName {
		t.Errorf("0%s: %d", reverse, code)
	}
}

func TestEDNSQueriesGetEDNSAnswers(t *testing.T) {
	withOPT := func(version byte) []byte {
		packet := append(ask("example.com", typeA), 0, 0, typeOPT, 0x10, 0, 0, version, 0, 0, 0, 4, 0, 10, 0, 0)
		packet[11] = 1
		return packet
	}
	reply := newResolver().answer(nil, withOPT(0))
	if code, data := read(t, reply); code != 0 || len(data) != 4 || reply[11] != 1 || string(reply[len(reply)-11:len(reply)-8]) != "\x00\x00\x29" {
		t.Errorf("%x", reply)
	}
	reply = newResolver().answer(nil, withOPT(1))
	if reply[len(reply)-6] != 1 || reply[7] != 0 {
		t.Errorf("another version: %x", reply)
	}
	// The control: a query without EDNS gets an answer without it.
	if reply = newResolver().answer(nil, ask("example.com", typeA)); reply[11] != 0 {
		t.Errorf("%x", reply)
	}
}

// malformed are bad packets, and the code of the answer; -1 for no answer.
func malformed() map[string]struct {
	packet []byte
	code   int
} {
	good := ask("example.com", typeA)
	change := func(at int, value byte) []byte {
		packet := append([]byte{}, good...)
		packet[at] = value
		return packet
	}
	return map[string]struct {
		packet []byte
		code   int
	}{
		"empty": {nil, -1}, "short": {good[:11], -1}, "an answer": {change(2, 0x81), -1},
		"another opcode": {change(2, 0x29), codeNotImplemented}, "no question": {change(5, 0), codeFormat}, "two questions": {change(5, 2), codeFormat},
		"an answer in it": {change(7, 1), codeFormat}, "an authority": {change(9, 1), codeFormat}, "two additional": {change(11, 2), codeFormat},
		"additional that is missing": {change(11, 1), codeFormat}, "cut in the name": {good[:15], codeFormat}, "cut after the name": {good[:len(good)-3], codeFormat},
		"header only": {good[:12], codeFormat}, "more behind it": {append(append([]byte{}, good...), 0), codeFormat},
		"compressed": {append(append([]byte{}, good[:12]...), 0xc0, 12, 0, 1, 0, 1), codeFormat}, "another class": {change(len(good)-1, 3), codeRefused},
		"additional of another kind": {append(change(11, 1), 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0), codeFormat},
		"OPT that is too long":       {append(change(11, 1), 0, 0, typeOPT, 0, 1, 0, 0, 0, 0, 0, 9), codeFormat},
	}
}

func TestMalformedDNSPacketsAreRefusedOrIgnored(t *testing.T) {
	for name, try := range malformed() {
		reply := newResolver().answer(nil, try.packet)
		if try.code < 0 {
			if len(reply) > 0 {
				t.Errorf("%s: %x", name, reply)
			}
		} else if code, data := read(t, reply); code != try.code || data != nil {
			t.Errorf("%s: %d %x, want %d", name, code, data, try.code)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, try := range malformed() {
		f.Add(try.packet)
	}
	f.Add(ask("example.com", typeA))
	f.Add(ask("1.0.18.198.in-addr.arpa", typePTR))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r := newResolver()
		for i := 0; i < 2; i++ {
			if reply := r.answer(nil, packet); len(reply) > 600 || len(reply) > 0 && len(reply) < headerLength {
				t.Fatalf("%x: %x", packet, reply)
			}
		}
	})
}

func TestANameKeepsItsAddressWhileItIsInTheTable(t *testing.T) {
	now := time.Unix(1000, 0)
	names := newAddressTable(func() time.Time { return now })
	names.most = 4
	address := func(name string) netip.Addr {
		t.Helper()
		a, ok := names.addressOf(name)
		if !ok {
			t.Fatalf("%s has no address", name)
		}
		return a
	}
	first := address("a")
	for _, name := range []string{"b", "c", "d", "a", "a"} {
		now = now.Add(time.Second)
		address(name)
	}
	if address("a") != first {
		t.Error("a has moved")
	}
	if _, ok := names.addressOf("e"); ok {
		t.Error("an address that was just given out was given to another name")
	}
	second := address("b")
	now = now.Add(heldFor - time.Second)
	address("b")
	now = now.Add(2 * time.Second)
	// c was used longest ago, then d and a; b was used in between.
	third, _ := indexOf(address("e"))
	if names.entries[third].name != "e" || address("a") != first || address("b") != second {
		t.Error("not the one that was used longest ago was replaced")
	}
	if _, known := names.names["c"]; known || len(names.names) != 4 {
		t.Errorf("%v", names.names)
	}
	if name, ok := names.nameOf(second); !ok || name != "b" {
		t.Errorf("%s, %v", name, ok)
	}
}

func TestEverySyntheticAddressIsUsableAndUnique(t *testing.T) {
	names := newAddressTable(time.Now)
	seen := map[netip.Addr]bool{}
	for i := 0; i < maxNames; i++ {
		name := fmt.Sprintf("n%d.example", i)
		a, ok := names.addressOf(name)
		last := a.As4()[3]
		if !ok || seen[a] || !isSynthetic(a) || last == 0 || last == 255 {
			t.Fatalf("%s: %v, %v", name, a, ok)
		}
		seen[a] = true
		if back, ok := names.nameOf(a); !ok || back != name {
			t.Fatalf("%v is %s, %v", a, back, ok)
		}
	}
	if _, ok := names.addressOf("one.too.many"); ok {
		t.Error("the addressTable has no bound")
	}
	for _, other := range []string{"198.18.0.0", "198.18.0.255", "198.19.255.254", "198.17.0.1", "198.20.0.1", "1.2.3.4", "::1"} {
		if name, ok := names.nameOf(netip.MustParseAddr(other)); ok {
			t.Errorf("%s is %s", other, name)
		}
	}
}

func TestTheResolverAnswersOverBothTransports(t *testing.T) {
	r := newResolver()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close(); listener.Close() })
	go r.answerPackets(socket)
	go r.accept(listener)
	packets, err := net.Dial("udp4", socket.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	packets.SetDeadline(time.Now().Add(5 * time.Second))
	packets.Write([]byte("x"))
	packets.Write(ask("example.com", typeA))
	buffer := make([]byte, 512)
	n, err := packets.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	_, overUDP := read(t, buffer[:n])
	stream, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	stream.SetDeadline(time.Now().Add(5 * time.Second))
	for i := 0; i < 2; i++ {
		packet := ask("example.com", typeA)
		stream.Write(append([]byte{0, byte(len(packet))}, packet...))
		if _, err := io.ReadFull(stream, buffer[:2]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stream, buffer[:buffer[1]]); err != nil {
			t.Fatal(err)
		}
		if _, overTCP := read(t, buffer); string(overTCP) != string(overUDP) || len(overTCP) != 4 {
			t.Errorf("%v, and %v", overUDP, overTCP)
		}
	}
	// A packet longer than any query ends the stream.
	stream.Write([]byte{0xff, 0xff})
	if n, err := stream.Read(buffer); err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
}
