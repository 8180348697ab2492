import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { entrypointPlans } from '../../devcontainer/entrypoints.ts'
import { containerService } from './entrypoint-service.ts'

function serviceOf(
  entrypoints: ReturnType<typeof entrypointPlans>,
  main?: ReturnType<typeof containerService>,
): ReturnType<typeof containerService> {
  const plan = { entrypoints } as Parameters<typeof containerService>[0]['plan']
  return containerService({ plan, main, containerUser: 'dev' })
}

const MAIN = {
  name: 'main',
  run: 'exec echo main',
  user: 'dev',
  workdir: '/w',
  variables: {},
  ready: { timeoutMs: 1 },
  needsProject: true,
  stopSignal: 'SIGTERM',
  stopMs: 1,
} as const

test('DC-44 entrypoints start in their order, after a failure too, and before the command of the container', () => {
  const plans = entrypointPlans(
    [
      { id: 'one', entrypoint: 'echo one; exit_of_none' },
      { id: 'none' },
      { id: 'two', entrypoint: '(echo two; exit 3)' },
      { id: 'again', entrypoint: '(echo two; exit 3)' },
    ],
    [],
  )
  assert.deepEqual(
    plans.map(({ origin }) => origin),
    ['one', 'two'],
  )
  const service = serviceOf(plans, MAIN)
  assert.deepEqual([service?.name, service?.workdir], ['main', '/w'])
  const { stdout, status } = spawnSync('/bin/sh', ['-c', service?.run ?? ''], { encoding: 'utf8' })
  assert.equal(stdout, 'one\ntwo\nmain\n')
  assert.equal(status, 0)
  const alone = serviceOf(plans)
  assert.deepEqual([alone?.name, alone?.user], ['entrypoints', 'dev'])
  const ended = spawnSync('timeout', ['0.5', '/bin/sh', '-c', alone?.run ?? ''], {
    encoding: 'utf8',
  })
  assert.equal(ended.stdout, 'one\ntwo\n')
  assert.equal(ended.status, 124, 'it stays until it is told to stop')
  assert.equal(serviceOf([], MAIN), MAIN)
  assert.equal(serviceOf([]), undefined)
})

test('DC-44 an entrypoint of a Feature that asks for what is refused is not started', () => {
  const item = (origin: string, verdict: 'refused' | 'honoured') => ({
    property: 'privileged',
    value: 'true',
    verdict,
    reason: '',
    origin,
    evidence: { file: '', said: '' },
  })
  const plans = entrypointPlans(
    [
      { id: 'daemon', entrypoint: '/daemon.sh', privileged: true },
      { id: 'plain', entrypoint: '/plain.sh' },
    ],
    [item('daemon', 'refused'), item('plain', 'honoured')],
  )
  assert.deepEqual(
    plans.map(({ lacks }) => lacks),
    [['privileged true'], []],
  )
  assert.match(serviceOf(plans)?.run ?? '', /^\/plain\.sh\n/)
})
