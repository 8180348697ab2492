/**
 * The ways out of a sandbox that a program can try, in Python. A probe runs inside and, as its control, on
 * the host.
 */
export const DOORS = `
import socket, ssl, struct, time
DOOR = ('127.0.0.1', 61080)
def talk(s, payload, wait):
  data = b''
  s.settimeout(wait)
  try:
    if payload: s.sendall(payload)
    while len(data) < 1 << 20:
      part = s.recv(65536)
      if not part: break
      data += part
    return data.decode('latin1')
  except socket.timeout: return data.decode('latin1') + '(timeout)'
  except OSError as e: return data.decode('latin1') + '(%s)' % errno.errorcode.get(e.errno, str(e))
  finally: s.close()
def raw(host, port, payload=b'', wait=5):
  try: s = socket.create_connection((host, port), wait)
  except socket.timeout: return '(timeout)'
  except OSError as e: return '(%s)' % errno.errorcode.get(e.errno, type(e).__name__)
  return talk(s, payload, wait)
def page(host, path='/'):
  return ('GET %s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' % (path, host)).encode()
def door(payload, wait=5): return raw(DOOR[0], DOOR[1], payload, wait)
def authority(host, port): return host if port == 80 else '%s:%s' % (host, port)
def direct(host, port=80): return raw(host.strip('[]'), port, page(authority(host, port)))
def get(host, port=80):
  at = authority(host, port)
  return door(page(at, 'http://%s/' % at))
def connect(host, port=80, inner=None):
  s = socket.create_connection(DOOR, 5)
  s.settimeout(5)
  s.sendall(('CONNECT %s:%s HTTP/1.1\\r\\nHost: %s:%s\\r\\n\\r\\n' % (host, port, host, port)).encode())
  head = s.recv(4096).decode('latin1')
  if not head.startswith('HTTP/1.1 200'): return head + talk(s, b'', 2)
  return talk(s, page(authority(host, port)) if inner is None else inner, 5)
def tunnel(host, port):
  s = socket.create_connection(DOOR, 5)
  s.sendall(('CONNECT %s:%d HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (host, port, host)).encode())
  if not s.recv(4096).startswith(b'HTTP/1.1 200'): raise OSError('refused')
  return s
def socks(host, port=80):
  s = socket.create_connection(DOOR, 5)
  s.settimeout(5)
  s.sendall(b'\\x05\\x01\\x00')
  s.recv(2)
  try: at = b'\\x01' + socket.inet_pton(socket.AF_INET, host)
  except OSError:
    try: at = b'\\x04' + socket.inet_pton(socket.AF_INET6, host.strip('[]'))
    except OSError: at = b'\\x03' + bytes([len(host.encode())]) + host.encode()
  s.sendall(b'\\x05\\x01\\x00' + at + struct.pack('>H', port))
  reply = s.recv(4096)
  if len(reply) < 2 or reply[1] != 0: s.close(); return 'socks refused %s' % reply[:2].hex()
  return talk(s, page(authority(host, port)), 5)
WAYS = {'direct': direct, 'get': get, 'connect': connect, 'socks': socks}
def every(host, port=80):
  def one(way):
    try: return way(host, port)
    except Exception as e: return '(%s)' % type(e).__name__
  return {name: one(way) for name, way in WAYS.items()}
def question(name, kind=1):
  labels = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\\0'
  return struct.pack('>HHHHHH', 4660, 256, 1, 0, 0, 0) + labels + struct.pack('>HH', kind, 1)
def udp(host, port, payload, wait=0.3):
  s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
  s.settimeout(wait)
  try:
    s.sendto(payload, (host, port))
    return s.recvfrom(4096)[0].decode('latin1')
  except socket.timeout: return '(timeout)'
  except OSError as e: return '(%s)' % errno.errorcode.get(e.errno, str(e))
  finally: s.close()
def handshake(name, first, port=443, to='site.example', inner=None):
  """TLS with a server name of one's choice; says what came of it."""
  try:
    if first == 'connect':
      s = socket.create_connection(DOOR, 5)
      s.sendall(('CONNECT %s:%d HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (to, port, to)).encode())
      if not s.recv(4096).startswith(b'HTTP/1.1 200'): return '(refused)'
    else: s = socket.create_connection((to, port), 5)
    s.settimeout(5)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    t = context.wrap_socket(s, server_hostname=name)
    return talk(t, page(to) if inner is None else inner, 5)
  except Exception as e: return '(%s)' % type(e).__name__
`

/** What a site or a listener of the tests' internet answers with. */
export const REACHED = /hello from|says hello/

export type Outcomes = Readonly<Record<'direct' | 'get' | 'connect' | 'socks', string>>
