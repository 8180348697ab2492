/** Group SE: a secret's value goes into its slot on its host, and is nowhere else, inside or outside. */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { archiveParts } from '../support/archive-parts.ts'
import { assertNoToken, findToken, newToken, spellings } from '../support/canary.ts'
import { differsOn, ON_DOCKER, ON_QEMU } from '../support/chosen-provider.ts'
import { DOORS } from '../support/doors.ts'
import { quietly } from '../support/host-view.ts'
import { Internet, noInternet, OTHER_SITE, SITE } from '../support/internet.ts'
import { NOT_LONG } from '../support/long.ts'
import { foundOnDisk } from '../support/machine-view.ts'
import { inside, shell } from '../support/probe.ts'
import { digestOf, SECRET_SCAN } from '../support/secret-scan.ts'
import { isAlive, until, type World } from '../support/world.ts'

const run = promisify(execFile)
const skip = noInternet()
const NO_NODE = 'its base has no Node'
/** The values. All that came out of AgentPod in these tests is looked through for them at the end. */
const key = newToken()
const rotated = newToken()
const other = newToken()
const password = newToken()
const values = [key, rotated, other, password]
const outputs: string[] = []

let internet: Internet
let world: World
let client: AgentPod
let box: Sandbox
let neighbour: Sandbox

before(async () => {
  if (skip) return
  internet = await Internet.open(['api.example', 'other.example', 'git.example'])
  internet.name('api.example', [SITE])
  internet.name('git.example', [SITE])
  internet.name('other.example', [OTHER_SITE])
  world = internet.world()
  client = world.client()
  await cli(['secret', 'set', 'API_KEY', '--host', 'api.example', '--json'], key)
  await cli(['secret', 'set', 'OTHER_KEY', '--host', 'other.example', '--header', 'x-api-key'], other)
  await cli(['secret', 'set', 'GIT_TOKEN', '--host', 'git.example', '--basic', 'agent'], password)
  box = await create('box', ['API_KEY', 'GIT_TOKEN'])
  neighbour = await create('neighbour', ['API_KEY'])
})

after(async () => {
  if (skip) return
  try {
    await world[Symbol.asyncDispose]()
  } finally {
    await internet[Symbol.asyncDispose]()
  }
})

async function cli(args: readonly string[], input = ''): Promise<string> {
  const { code, stdout, stderr } = await world.cli(args, { input })
  outputs.push(stdout, stderr)
  assert.equal(code, 0, stderr)
  return stdout
}

function create(name: string, secrets: readonly string[]): Promise<Sandbox> {
  return client.create({ name, network: { secrets: [...secrets], allow: ['other.example'] } })
}

function attack(name: string, work: () => Promise<void>, mayRun: { skip?: string | false } = {}): void {
  test(name, { skip: mayRun.skip || skip }, async () => {
    await internet.forget()
    await work()
  })
}

const placeholderOf = async (sandbox: Sandbox, name = 'API_KEY'): Promise<string> =>
  (await shell(sandbox, `printenv ${name}`)).trim()

/** What the sites were sent in a header. */
function received(header: string): (string | undefined)[] {
  return internet.network.of('request').map(({ headers }) => {
    const at = headers.findIndex((word, index) => index % 2 === 0 && word.toLowerCase() === header)
    return at < 0 ? undefined : headers[at + 1]
  })
}

const wasSent = (value: string): boolean =>
  internet.network.arrivals.some((one) => JSON.stringify(one).includes(value))

async function assertNothingSent(what: string): Promise<void> {
  await internet.settled()
  assert.deepEqual(
    internet.network.of('request').map(({ method, url }) => `${method} ${url}`),
    [],
    what,
  )
}

const BEARER = '-H "Authorization: Bearer $API_KEY"'
const curl = (rest: string, sandbox = box): Promise<string> => shell(sandbox, `curl -sS -m 20 ${rest}`)

attack('the control: a placeholder in its slot arrives as the value', async () => {
  const placeholder = await placeholderOf(box)
  assert.match(placeholder, /^agentpod[a-z0-9]{40}$/)
  await curl(`${BEARER} https://api.example/fine`)
  assert.deepEqual(received('authorization'), [`Bearer ${key}`])
})

attack(
  'NET-12 SE-01 the value is in no variable, file, command line or memory inside, and neither is the key of the authority',
  async () => {
    const planted = newToken()
    const program = `
import urllib.request
answer = urllib.request.urlopen(urllib.request.Request('https://api.example/echo', headers={'Authorization': 'Bearer ' + os.environ['API_KEY']})).read()
${SECRET_SCAN}`
    for (const user of ['user', 'root']) {
      const found = await inside<Record<string, string>>(box, program, { user, env: { PLANTED: planted } })
      assert.equal(found[digestOf(planted)], 'environment', 'the control: what is there is found')
      for (const value of values)
        for (const spelling of [value, encodeURIComponent(value)])
          assert.equal(found[digestOf(spelling)], undefined, `${user}: ${found[digestOf(spelling)]}`)
    }
    assert.ok(received('authorization').includes(`Bearer ${key}`), 'the control: it was used')
    const files = await shell(box, 'cat /run/agentpod/* /etc/ssl/certs/ca-certificates.crt', { user: 'root' })
    assert.match(files, /BEGIN CERTIFICATE/, 'the control')
    assert.doesNotMatch(files, /PRIVATE KEY/)
  },
)

attack('NET-12 SE-02 the value for one host goes to no other, and not in the clear', async () => {
  await curl('https://other.example/fine')
  await curl('http://other.example/fine')
  assert.equal(internet.network.of('request').length, 2, 'the control: that host is allowed')
  await internet.forget()
  for (const url of ['http://other.example/x', 'http://api.example/x', 'https://git.example/x']) {
    const answer = await curl(`-w '%{http_code}' ${BEARER} ${url}`)
    assert.match(answer, /403$/, `${url}: ${answer}`)
  }
  await assertNothingSent('another host')
  // TLS to a host without a secret is not intercepted, and the placeholder inside it is useless there.
  await curl(`${BEARER} https://other.example/x`)
  assert.ok(!wasSent(key))
})

attack('SE-02 where all TLS is opened, a placeholder for one host goes to no other', async () => {
  await using open = await client.create({
    network: { secrets: ['API_KEY'], allow: ['other.example'], intercept: 'all' },
  })
  await curl('https://other.example/fine', open)
  assert.equal(internet.network.of('request').length, 1, 'the control: that host is allowed')
  await internet.forget()
  for (const rest of [`${BEARER} https://other.example/x`, '-d "$API_KEY" https://other.example/x'])
    assert.match(await curl(rest, open), /secret\.misplaced/)
  await assertNothingSent('another host')
})

describe('SE-03 a placeholder anywhere but in its slot stops the request', () => {
  const places: Readonly<Record<string, string>> = {
    'in the body': '-d "key=$API_KEY" https://api.example/echo',
    'in a body of JSON':
      '-H "Content-Type: application/json" -d "{\\"a\\":\\"$API_KEY\\"}" https://api.example/echo',
    'in the query': '"https://api.example/echo?key=$API_KEY"',
    'in the path': '"https://api.example/$API_KEY"',
    'percent-encoded in the query': `"https://api.example/echo?q=$(printf %s "$API_KEY" | od -An -tx1 -v | tr -d '\\n' | sed 's/ /%/g')"`,
    'in a cookie': '-b "session=$API_KEY" https://api.example/echo',
    'in another header': '-H "X-Debug: $API_KEY" https://api.example/echo',
    'in the slot behind another word': '-H "Authorization: Token $API_KEY" https://api.example/echo',
    'as a password of Basic': '-u "user:$API_KEY" https://api.example/echo',
    'in a part of a form': '-F "file=@/dev/stdin" https://api.example/echo < /tmp/placeholder',
    'in base64 in the body': '-d "$(printf %s "x$API_KEY" | base64 -w0)" https://api.example/echo',
    'in a packed body':
      '-H "Content-Encoding: gzip" --data-binary @/tmp/placeholder.gz https://api.example/echo',
    'in a long body sent in chunks':
      '-H "Transfer-Encoding: chunked" --data-binary @/tmp/long https://api.example/echo',
    'in the body to another host': '-d "key=$API_KEY" http://other.example/echo',
    'in the query to another host': '"http://other.example/?key=$API_KEY"',
    'in a request that also has it in its slot': `${BEARER} -d "key=$API_KEY" https://api.example/echo`,
  }
  for (const [where, rest] of Object.entries(places))
    attack(`NET-13 SE-03 a placeholder ${where} stops the request`, async () => {
      await shell(
        box,
        'printf %s "$API_KEY" > /tmp/placeholder; gzip -kf /tmp/placeholder; (head -c 70000 /dev/zero; cat /tmp/placeholder; head -c 1000 /dev/zero) > /tmp/long',
      )
      const answer = await curl(rest)
      assert.ok(!wasSent(key))
      const placeholder = await placeholderOf(box)
      const complete = internet.network
        .of('request')
        .filter((one) => JSON.stringify(one).includes(placeholder))
      assert.deepEqual(complete, [], answer)
      assert.match(answer, /secret\.misplaced|curl: \(/, answer)
    })

  attack('SE-03 the control: the same requests without a placeholder arrive', async () => {
    const results = await Promise.all(
      Object.values(places)
        .slice(0, 4)
        .map((rest) => shell(box, `API_KEY=nothing; printf nothing > /tmp/nothing; curl -sS -m 20 ${rest}`)),
    )
    assert.equal(internet.network.of('request').length, 4, results.join('\n'))
  })
})

describe('SE-04 an echoed value is masked', () => {
  const clients: Readonly<Record<string, string>> = {
    'to curl': `curl -sSi ${BEARER} https://api.example/echo`,
    'to curl without the proxy': `env -i CURL_CA_BUNDLE="$CURL_CA_BUNDLE" curl -sSi ${BEARER} https://api.example/echo`,
    'to curl over HTTP/2': `curl -sSi --http2 ${BEARER} https://api.example/echo`,
    'to curl, packed': `curl -sSi --compressed ${BEARER} https://api.example/echo`,
    'to Python': `python3 -c 'import os,urllib.request as u; r=u.urlopen(u.Request("https://api.example/echo", headers={"Authorization": "Bearer "+os.environ["API_KEY"]})); print(r.headers, r.read())'`,
    'to Node': `node -e 'fetch("https://api.example/echo",{headers:{authorization:"Bearer "+process.env.API_KEY}}).then(async r=>console.log([...r.headers], await r.text()))'`,
    'to git':
      'git -c http.extraHeader="Authorization: Bearer $API_KEY" ls-remote https://api.example/repository',
  }
  const absent: Readonly<Record<string, { skip: string | false }>> = {
    'to Node': differsOn({ qemu: NO_NODE, docker: NO_NODE }),
    'to curl without the proxy': differsOn({ docker: 'without the proxy nothing is reached' }),
  }
  for (const [what, command] of Object.entries(clients)) {
    const answered = async (): Promise<void> => {
      const answer = await shell(box, command)
      assert.ok(received('authorization').includes(`Bearer ${key}`), `the control: it arrived; ${answer}`)
      assert.match(answer, /\*{20}/, `the control: the rest of the answer is there: ${answer}`)
      assertNoToken(answer, key, `the answer ${what}`)
    }
    attack(`SE-04 a value that a server echoes ${what} is masked`, answered, absent[what])
  }

  attack('SE-04 an echoed password of Basic comes back masked, in base64 too', async () => {
    const answer = await shell(box, 'curl -sSi -u "agent:$GIT_TOKEN" https://git.example/echo')
    const sent = `Basic ${Buffer.from(`agent:${password}`).toString('base64')}`
    assert.deepEqual(received('authorization'), [sent], answer)
    assert.match(answer, /"method":"GET"/, 'the control')
    assertNoToken(answer, password, 'the answer')
    assert.ok(!answer.includes(sent.slice(6)))
  })

  attack('SE-04 TRACE is not passed on', async () => {
    assert.match(await curl(`-X TRACE ${BEARER} https://api.example/echo`), /request\.method/)
    await assertNothingSent('TRACE')
  })
})

describe('streams with a secret', () => {
  attack('SE-04 server-sent events arrive one by one, masked', async () => {
    const program = `
import subprocess, time
child = subprocess.Popen(['curl', '-sSN', '-H', 'Authorization: Bearer ' + os.environ['API_KEY'], 'https://api.example/events?count=5&every=300'], stdout=subprocess.PIPE)
seen = []
for line in child.stdout:
  if line.strip(): seen.append([time.time(), line.decode()])
tell(seen)`
    const seen = await inside<[number, string][]>(box, program)
    assert.equal(seen.length, 5)
    const gaps = seen.slice(1).map(([at], index) => at - (seen[index]?.[0] ?? 0))
    for (const gap of gaps) assert.ok(gap > 0.15, `an event came ${gap} s after the one before it`)
    assert.match(seen[2]?.[1] ?? '', /^data: 2 Bearer \*+$/m)
    assertNoToken(JSON.stringify(seen), key, 'the events')
    assert.deepEqual(received('authorization'), [`Bearer ${key}`])
  })

  attack(
    'SE-03 SE-04 a websocket carries frames both ways, masked, and ends when one has the placeholder',
    async () => {
      const program = `${DOORS}
import base64
def frame(text):
  body, mask = text.encode(), b'abcd'
  return bytes([0x81, 0x80 | len(body)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(body))
def read(t, count):
  data = b''
  while len(data) < count:
    part = t.recv(count - len(data))
    if not part: raise EOFError()
    data += part
  return data
def message(t):
  head = read(t, 2)
  size = head[1] & 127
  if size == 126: size = struct.unpack('>H', read(t, 2))[0]
  return read(t, size).decode()
s = ${ON_DOCKER ? "tunnel('api.example', 443)" : "socket.create_connection(('api.example', 443), 5)"}
t = ssl.create_default_context(cafile=os.environ['SSL_CERT_FILE']).wrap_socket(s, server_hostname='api.example')
t.settimeout(5)
key = os.environ['API_KEY']
t.sendall(('GET /socket HTTP/1.1\\r\\nHost: api.example\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: ' + base64.b64encode(b'0123456789abcdef').decode() + '\\r\\nAuthorization: Bearer ' + key + '\\r\\n\\r\\n').encode())
head = b''
while b'\\r\\n\\r\\n' not in head: head += t.recv(1)
said = [head.decode(), message(t)]
t.sendall(frame('ping'))
said.append(message(t))
t.sendall(frame('here it is: ' + key))
try: said.append(message(t))
except Exception as e: said.append('ended')
tell(said)`
      const [head = '', first = '', echo, last] = await inside<string[]>(box, program)
      assert.match(head, /^HTTP\/1\.1 101/)
      assert.match(first, /^you said Bearer \*+$/)
      assert.equal(echo, 'ping')
      assert.notEqual(last, 'here it is', 'the frame did not come back')
      assert.deepEqual(received('authorization'), [`Bearer ${key}`])
      assert.deepEqual(
        internet.network.of('frame').map(({ text }) => text),
        ['ping'],
      )
    },
  )
})

attack('SE-06 another credential does not go to a host that has one of its own', async () => {
  const foreign = [
    '-H "Authorization: Bearer attacker-key-0123456789"',
    '-H "X-Api-Key: attacker-key-0123456789"',
    '-b "session=attacker-key-0123456789"',
    '-u attacker:attacker-key-0123456789',
  ]
  for (const header of foreign) await curl(`${header} https://api.example/fine`)
  assert.match(await curl('"https://api.example/x?api_key=attacker-key-0123456789"'), /credential\.foreign/)
  await internet.settled()
  assert.ok(internet.network.of('request').length > 0, 'the control: requests without it arrive')
  assert.ok(!wasSent('attacker-key'))
  assert.ok(!wasSent(Buffer.from('attacker:attacker').toString('base64').slice(0, 20)))
  await internet.forget()
  await curl('-H "Authorization: Bearer attacker-key-0123456789" https://other.example/fine')
  assert.ok(wasSent('attacker-key'), 'the control: to a host without one it does')
})

describe('SE-09 placeholders', () => {
  const use = (placeholder: string, sandbox: Sandbox): Promise<string> =>
    curl(`-H "Authorization: Bearer ${placeholder}" https://api.example/fine`, sandbox)

  attack('NET-13 SE-09 a placeholder works in its own sandbox alone', async () => {
    const [mine, theirs] = [await placeholderOf(box), await placeholderOf(neighbour)]
    assert.notEqual(mine, theirs)
    await use(theirs, box)
    await use(mine, neighbour)
    assert.ok(!wasSent(key))
    await use(mine, box)
    await use(theirs, neighbour)
    assert.equal(received('authorization').filter((one) => one === `Bearer ${key}`).length, 2, 'the control')
  })

  attack('NET-13 SE-09 a placeholder does not work in a fork, which has its own', async () => {
    const mine = await placeholderOf(box)
    const [copy] = await box.fork()
    assert.ok(copy)
    await using fork = copy
    const theirs = await placeholderOf(fork)
    assert.match(theirs, /^agentpod/)
    assert.notEqual(theirs, mine)
    await use(mine, fork)
    await use(theirs, box)
    assert.ok(!wasSent(key))
    await use(theirs, fork)
    assert.ok(wasSent(key), 'the control')
  })

  attack(
    'NET-13 SE-09 a placeholder does not work in a sandbox from a snapshot, which has its own',
    async () => {
      const mine = await placeholderOf(box)
      await shell(box, 'printf %s "$API_KEY" > ~/kept')
      const snapshot = await box.snapshot({})
      await using restored = await client.create({ snapshot: snapshot.id })
      assert.equal(await shell(restored, 'cat ~/kept'), mine, 'the old one is in the files')
      const theirs = await placeholderOf(restored)
      assert.match(theirs, /^agentpod/)
      assert.notEqual(theirs, mine)
      await use(mine, restored)
      assert.ok(!wasSent(key))
      await use(theirs, restored)
      assert.ok(wasSent(key), 'the control')
      await client.snapshots.remove(snapshot.id)
    },
  )

  attack('SE-09 a placeholder becomes the new value after a rotation, without a restart', async () => {
    await cli(['secret', 'rotate', 'API_KEY'], rotated)
    for (const one of [box, neighbour]) await use(await placeholderOf(one), one)
    assert.deepEqual(received('authorization'), [`Bearer ${rotated}`, `Bearer ${rotated}`])
    const answer = await curl(`${BEARER} https://api.example/echo`)
    assertNoToken(answer, rotated, 'an echo')
    await cli(['secret', 'rotate', 'API_KEY'], key)
  })

  attack(
    'SE-09 a placeholder works after a stop and a start, a pause, and a kill of the server',
    async () => {
      const mine = await placeholderOf(box)
      await box.stop()
      await box.start()
      await use(await placeholderOf(box), box)
      await box.pause()
      await box.resume()
      await use(await placeholderOf(box), box)
      const pid = world.serverPid
      process.kill(pid, 'SIGKILL')
      await until('the server is gone', () => !isAlive(pid))
      await use(await placeholderOf(box), box)
      assert.equal(await placeholderOf(box), mine)
      assert.deepEqual(received('authorization'), Array(3).fill(`Bearer ${key}`))
    },
  )

  attack('NET-13 SE-09 a placeholder is useless once its secret is removed', async () => {
    await cli(['secret', 'set', 'BRIEF', '--host', 'other.example'], other)
    await using brief = await create('brief', ['BRIEF'])
    const placeholder = await placeholderOf(brief, 'BRIEF')
    const send = (): Promise<string> =>
      curl(`-H "Authorization: Bearer ${placeholder}" https://other.example/fine`, brief)
    await send()
    assert.ok(wasSent(other), 'the control')
    await internet.forget()
    await cli(['secret', 'rm', 'BRIEF'])
    await send()
    await internet.settled()
    assert.ok(!wasSent(other))
  })
})

attack('LK-08 while a secret is set, its value is in no command line of the machine', async () => {
  const token = newToken()
  values.push(token)
  const seen: string[] = []
  const watch = setInterval(() => {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      seen.push(quietly(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8')) ?? '')
  }, 10)
  try {
    await cli(['secret', 'set', 'WATCHED', '--host', 'other.example'], token)
    const env = { HELD: token }
    const { code, stderr } = await world.cli(['secret', 'rotate', 'WATCHED', '--from-env', 'HELD'], { env })
    assert.equal(code, 0, stderr)
    await execFileSync('sh', ['-c', 'sleep 0.1', 'control-of-the-watch'])
    await new Promise((resolve) => setTimeout(resolve, 50))
  } finally {
    clearInterval(watch)
  }
  assert.ok(
    seen.some((line) => line.includes('WATCHED')),
    'the control: the call was seen',
  )
  assertNoToken(seen.join('\n'), token, 'a command line')
  const { code, stderr, stdout } = await world.cli([
    'secret',
    'set',
    'WATCHED',
    token,
    '--host',
    'other.example',
  ])
  assert.notEqual(code, 0, 'a value among the arguments is refused')
  assertNoToken(stdout + stderr, token, 'and not repeated')
  await cli(['secret', 'rm', 'WATCHED'])
})

attack('NET-12 LK-14 neither a snapshot nor an archive holds the value', async () => {
  await shell(
    box,
    `curl -sS ${BEARER} https://api.example/echo > ~/answer; echo archived-file > ~/control; env > ~/env`,
  )
  const snapshot = await box.snapshot({ name: 'golden' })
  if (ON_QEMU) {
    // Machines give no archives.
    const sought = ['archived-file', ...values.flatMap(spellings), 'PRIVATE KEY']
    assert.deepEqual(await foundOnDisk(world, snapshot.id, sought), ['archived-file'], 'the control alone')
    return
  }
  const chunks: Uint8Array[] = []
  for await (const chunk of await client.snapshots.export(snapshot.id)) chunks.push(chunk)
  // Below its own files are the layers of its base.
  const [manifest = '', ...contents] = archiveParts(Buffer.concat(chunks)).map((one) =>
    one.toString('latin1'),
  )
  const files = contents.at(-1) ?? ''
  assert.ok(files.includes('archived-file'), 'the control: its files are in it')
  for (const value of values) assertNoToken(manifest + files, value, 'the archive')
  assert.doesNotMatch(manifest + files, /PRIVATE KEY/)
})

attack('LK-16 the value is sealed in the database, and its key is for its owner alone', async () => {
  const file = join(world.home, 'secrets.key')
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const database = new DatabaseSync(join(world.home, 'state.db'), { readOnly: true })
  try {
    const tables = database.prepare("select name from sqlite_master where type = 'table'").all()
    const rows = tables.map(({ name }) => [name, database.prepare(`select * from "${name}"`).all()] as const)
    const text = JSON.stringify(rows)
    assert.ok(text.includes('API_KEY') && text.includes('api.example'), 'the control: the secret is there')
    for (const value of values) assertNoToken(text, value, 'state.db')
    assert.doesNotMatch(text, /PRIVATE KEY/, 'nor is a key of an authority in the clear')
  } finally {
    database.close()
  }
})

attack('NET-12 LK-16 no answer or error of the API or the CLI has the value', async () => {
  for (const args of [
    ['secret', 'ls'],
    ['secret', 'ls', '--json'],
    ['ls', '--json', '--all'],
    ['policy', 'show', 'box'],
    ['policy', 'show', '--json', 'box'],
    ['policy', 'explain', 'box', 'https://api.example/x'],
    ['net', 'log', 'box'],
    ['net', 'log', '--json', 'box'],
    ['net', 'suggest', 'box'],
  ])
    await cli(args)
  const bad: readonly (readonly [string[], string])[] = [
    [['secret', 'set', 'BAD', '--host', '*.example'], key],
    [['secret', 'set', 'BAD', '--host', 'localhost'], key],
    [['secret', 'set', 'BAD', '--host', 'api.example', '--header', 'host'], key],
    [['secret', 'set', 'BAD', '--host', 'api.example'], `${key}\nX-Second: header`],
    [['secret', 'rotate', 'NOBODY'], key],
  ]
  for (const [args, input] of bad) {
    const { code, stdout, stderr } = await world.cli(args, { input })
    assert.notEqual(code, 0, args.join(' '))
    outputs.push(stdout, stderr)
  }
  await assert.rejects(
    client.secrets.set({ name: 'BAD NAME', value: key, hosts: ['api.example'] }),
    (error) => isAgentPodError(error) && findToken(JSON.stringify([error, error.message]), key) === undefined,
  )
  const text = outputs.join('\n')
  assert.ok(text.includes('api.example'), 'the control')
  for (const value of values) assertNoToken(text, value, 'what was printed')
})

attack(
  'NET-12 LK-16 no file of the state directory has the value, in any spelling',
  async () => {
    // What was decided last is written within five seconds.
    await new Promise((resolve) => setTimeout(resolve, 5500))
    const directory = mkdtempSync(join(tmpdir(), 'agentpod-patterns-'))
    const planted = newToken()
    const patterns = join(directory, 'patterns')
    writeFileSync(patterns, [...values, planted].flatMap(spellings).join('\n'))
    const search = async (): Promise<string[]> => {
      const { stdout } = await run('grep', ['-rlaF', '-f', patterns, world.home], {
        maxBuffer: 1 << 24,
      }).catch((error: { code?: number; stdout: string }) => {
        assert.equal(error.code, 1)
        return error
      })
      return stdout.trim().split('\n').filter(Boolean)
    }
    try {
      assert.deepEqual(await search(), [])
      const control = join(world.home, 'logs', 'control')
      writeFileSync(control, `x ${Buffer.from(`xy${planted}`).toString('base64')} y`)
      assert.deepEqual(await search(), [control], 'the control')
      rmSync(control)
    } finally {
      rmSync(directory, { recursive: true })
    }
  },
  { skip: NOT_LONG },
)
