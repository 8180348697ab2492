/**
 * Group RS, continued: kernel resources that the whole machine shares. Group LK: what the kernel tells about
 * the machine.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { createWithSudo, differsOn, ON_GVISOR } from '../support/chosen-provider.ts'
import { cgroupDirectory, outsidePid } from '../support/host-view.ts'
import * as probes from '../support/kernel-probes.ts'
import { inside, outside, PRELUDE, shell } from '../support/probe.ts'
import { World } from '../support/world.ts'

const world = new World()
const client = world.client()
let plain: Sandbox
let sudo: Sandbox

before(async () => {
  plain = await client.create({})
  sudo = await createWithSudo(client)
})

after(() => world[Symbol.asyncDispose]())

const attackers = (): readonly (readonly [Sandbox, string])[] => [
  [plain, 'user'],
  [plain, 'root'],
  [sudo, 'root'],
]

test('RS-13 AIO, whose contexts are in one table for the machine, does not exist inside', async () => {
  assert.equal(await outside(probes.AIO), 'ok', 'the control: the host has it')
  for (const [sandbox, user] of attackers())
    assert.equal(await inside(sandbox, probes.AIO, { user }), 'ENOSYS', user)
})

test('RS-14 nobody inside gives the kernel a filter to compile, of a socket or of a process', async () => {
  const control = await outside<Record<string, string>>(probes.FILTERS)
  assert.deepEqual(new Set(Object.values(control)), new Set(['ok']), 'the control: the host takes them all')
  for (const [sandbox, user] of attackers())
    assert.deepEqual(
      await inside(sandbox, probes.FILTERS, { user }),
      {
        'socket filter': 'EPERM',
        'reuseport filter': 'EPERM',
        // The answer of a kernel without filters: programs for which filters are optional, like man,
        // continue.
        seccomp: 'EINVAL',
        prctl: 'EINVAL',
        'buffer size': 'ok',
        'thread name': 'ok',
      },
      user,
    )
})

test(
  'RS-15 a sandbox that opens all the terminals it can leaves some to the host and to others',
  differsOn({ gvisor: 'terminals there are memory of the sandbox', docker: 'Docker limits no terminals' }),
  async () => {
    await using greedy = await client.create({})
    const held = 128
    const holder = greedy.exec('/usr/bin/python3', {
      args: ['-c', PRELUDE + probes.TERMINALS],
      env: { HOLD: '1' },
      stdin: true,
    })
    const output = holder.output()
    const first = await output.next()
    assert.ok(!first.done && Number(first.value.data.toString()) === held, 'it gets its share and no more')
    const [host, other] = [
      await outside<number>(probes.TERMINALS),
      await inside<number>(plain, probes.TERMINALS),
    ]
    await holder.closeStdin()
    for await (const _ of output);
    assert.ok(host > held, `the control: the host gets ${host}`)
    assert.equal(other, held)
  },
)

for (const kind of ['tcp', 'udp'] as const) {
  test(
    `RS-16 a sandbox of 128 MiB holds less than twice that in ${kind} sockets that nobody reads`,
    differsOn({
      gvisor: 'they are memory of the sandbox, which ends as a whole at its limit',
      docker: 'on cgroup v1 Docker does not count what sockets hold',
      qemu: 'they are memory of the machine',
    }),
    async () => {
      const memoryMib = 128
      await using sandbox = await client.create({ resources: { memoryMib } })
      const earlier = probes.heldBySocketsMib(kind)
      const holder = sandbox.exec('/usr/bin/python3', {
        args: ['-c', PRELUDE + probes.SOCKET_BUFFERS(kind)],
        stdin: true,
      })
      const output = holder.output()
      const first = await output.next()
      assert.ok(!first.done, 'the program fills what it can')
      const held = probes.heldBySocketsMib(kind) - earlier
      assert.ok(held >= 1, `the control: buffers are filled and counted: ${held} MiB`)
      // TCP leaves every connection a few pages at the limit, and each connection itself counts as memory.
      assert.ok(held < 2 * memoryMib, `${held} MiB`)
    },
  )
}

test('RS-17 no payload lowers its OOM score below that of podd, and podd’s is above the host’s', {
  skip: probes.CANNOT_SET_OOM_FLOOR,
}, async () => {
  const lower = `tell([write('/proc/self/oom_score_adj', n) for n in ('600', '0', '99', '100')])`
  assert.deepEqual(await outside(lower), ['ok', 'ok', 'ok', 'ok'], 'the control: root outside may')
  for (const [sandbox, user] of attackers())
    assert.deepEqual(await inside(sandbox, lower, { user }), ['ok', 'EACCES', 'EACCES', 'ok'], user)
  assert.equal(await shell(plain, 'cat /proc/1/oom_score_adj'), '100\n')
})

test(
  'RS-18 all sandboxes together leave the host some of its processes',
  differsOn({
    gvisor: 'a sandbox ends as a whole when the host refuses gVisor a process',
    docker: 'the daemon limits each container, and not all together',
    qemu: 'a machine has few processes on the host',
  }),
  async () => {
    const own = cgroupDirectory(await outsidePid(world, plain.id), 'pids')
    const [scope, all] = [dirname(own), dirname(dirname(own))]
    const read = (file: string): number => Number(readFileSync(file, 'utf8'))
    const machine = Math.min(read('/proc/sys/kernel/pid_max'), read('/proc/sys/kernel/threads-max'))
    const limit = read(join(all, 'pids.max'))
    assert.ok(limit > 0 && limit <= machine * 0.75, `${limit} of ${machine} in ${all}`)
    // The same limit, made small, on the group that holds this test's sandboxes alone.
    const room = 60
    writeFileSync(join(scope, 'pids.max'), String(read(join(scope, 'pids.current')) + room))
    try {
      const found = await inside<[number, string]>(plain, probes.PROCESSES)
      assert.ok(found[0] <= room && found[1] === 'EAGAIN', `a sandbox starts ${found} of ${room}`)
      assert.deepEqual(await outside(probes.PROCESSES), [200, 'ok'], 'the control: the host starts more')
    } finally {
      writeFileSync(join(scope, 'pids.max'), 'max')
    }
    assert.deepEqual(
      await inside(plain, probes.PROCESSES),
      [200, 'ok'],
      'the control: so does the sandbox, without the limit',
    )
  },
)

test(
  'RS-18 every open file counts as memory of its sandbox',
  differsOn({
    gvisor: 'open files are memory of its kernel, which is part of the sandbox',
    qemu: 'open files are memory of the machine',
  }),
  async () => {
    await using sandbox = await client.create({})
    const holder = sandbox.exec('/usr/bin/python3', {
      args: ['-c', PRELUDE + probes.OPEN_FILES],
      stdin: true,
    })
    const output = holder.output()
    const told = async (): Promise<string> => {
      const { value, done } = await output.next()
      return done ? 'nothing' : value.data.toString()
    }
    assert.equal(await told(), '0\n')
    const earlier = (await sandbox.stats()).memBytes
    await holder.write(Buffer.from('go on\n'))
    assert.equal(await told(), '10000\n')
    const grown = (await sandbox.stats()).memBytes - earlier
    await holder.closeStdin()
    for await (const _ of output);
    // What checkOpenFiles in native/internal/host/probe counts on.
    assert.ok(grown >= 10_000 * 128, `${grown} bytes for 10,000 open files`)
  },
)

interface KernelFiles {
  readonly sys: readonly string[]
  readonly texts: readonly string[]
  readonly proc: Readonly<Record<string, number>>
}

/** gVisor's own /sys has these directories, with nothing in them. */
const EMPTY_ON_GVISOR = ON_GVISOR
  ? ['module', 'block', 'class/power_supply', 'dev', 'dev/block', 'dev/char', 'firmware', 'power', 'bus'].map(
      (name) => `/sys/${name}`,
    )
  : []

/** In /proc, the same on every host. */
const MADE_UP_BY_GVISOR = ON_GVISOR ? ['cgroups', 'cmdline', 'devices'] : []

const SYS_SHOWN =
  /^\/sys(?:$|\/class$|\/class\/net|\/devices$|\/devices\/system$|\/devices\/system\/(?:cpu|node)|\/devices\/virtual$|\/devices\/virtual\/net|\/fs$|\/fs\/cgroup$|\/kernel$|\/kernel\/mm$|\/kernel\/mm\/transparent_hugepage)/

test(
  'LK-17 /sys and /proc show the processors and the network of the sandbox, and nothing of the host',
  differsOn({ docker: 'test/attack/docker.test.ts has this case, with what Docker covers' }),
  async () => {
    const control = await outside<KernelFiles>(probes.KERNEL_FILES)
    assert.ok(
      control.sys.some(
        (name) => name.startsWith('/sys/block') || name.startsWith('/sys/devices/virtual/block'),
      ),
      'the control: the host shows its disks',
    )
    for (const name of ['cmdline', 'diskstats', 'partitions', 'interrupts'])
      assert.ok((control.proc[name] ?? 0) > 0, `the control: the host has /proc/${name}`)
    for (const [sandbox, user] of attackers()) {
      const found = await inside<KernelFiles>(sandbox, probes.KERNEL_FILES, { user })
      assert.deepEqual(
        found.sys.filter((name) => !SYS_SHOWN.test(name) && !EMPTY_ON_GVISOR.includes(name)),
        [],
        user,
      )
      assert.deepEqual(
        Object.entries(found.proc).filter(([name, size]) => size > 0 && !MADE_UP_BY_GVISOR.includes(name)),
        [],
        user,
      )
      assert.ok(!found.texts.join('\n').includes(world.home), `${user} reads where the state directory is`)
    }
  },
)

test('LK-17 programs that ask the kernel about the machine still get their answers', async () => {
  const host = await outside<number>('tell(os.cpu_count())')
  const questions: Readonly<Record<string, RegExp>> = {
    nproc: new RegExp(`^${host}\\n`),
    lscpu: new RegExp(`^CPU\\(s\\):\\s+${host}$`, 'm'),
    free: /^Mem:\s+\d{4,}/m,
    'ps -ef': /podd/,
    'top -bn1': /^%Cpu/m,
    // gVisor shows no network in /sys.
    ...(!ON_GVISOR && { 'cat /sys/class/net/lo/mtu': /^65536\n/ }),
    'node -p "os.cpus().length + os.totalmem()"': /^\d{6,}\n/,
    'node -p "Object.keys(os.networkInterfaces()).join()"': /^lo\n/,
    '/usr/bin/python3 -c "import os, multiprocessing; print(multiprocessing.cpu_count())"': new RegExp(
      `^${host}\\n`,
    ),
  }
  for (const [question, answer] of Object.entries(questions)) {
    const program = question.split(' ')[0] ?? ''
    if ((await shell(plain, `command -v ${program}`)) === '') continue
    assert.match(await shell(plain, question), answer, question)
  }
})
