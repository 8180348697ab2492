import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Metrics } from './metrics.ts'

test('a counter counts by its labels', () => {
  const metrics = new Metrics()
  const counter = metrics.counter('hits_total', 'Hits.')
  counter.add({ route: '/a' })
  counter.add({ route: '/a' }, 2)
  counter.add({ route: '/b' })
  assert.equal(
    metrics.text(),
    '# HELP hits_total Hits.\n# TYPE hits_total counter\nhits_total{route="/a"} 3\nhits_total{route="/b"} 1\n',
  )
})

test('a histogram’s buckets hold what is at most their bound', () => {
  const metrics = new Metrics()
  const histogram = metrics.histogram('took_seconds', 'Took.', [0.1, 1])
  for (const value of [0.1, 0.5, 7]) histogram.observe({}, value)
  assert.deepEqual(metrics.text().trim().split('\n').slice(2), [
    'took_seconds_bucket{le="0.1"} 1',
    'took_seconds_bucket{le="1"} 2',
    'took_seconds_bucket{le="+Inf"} 3',
    'took_seconds_sum 7.6',
    'took_seconds_count 3',
  ])
})

test('a gauge is read when the metrics are read', () => {
  const metrics = new Metrics()
  let living = 1
  metrics.gauge('living', 'Living.', () => [[{ state: 'running' }, living]])
  living = 7
  assert.match(metrics.text(), /^living\{state="running"\} 7$/m)
})

test('a label’s value cannot break out of its quotes', () => {
  const metrics = new Metrics()
  metrics.counter('c', 'C.').add({ a: 'x"} 1\nevil{b="\\' })
  assert.equal(metrics.text().split('\n').length, 4)
  assert.match(metrics.text(), /c\{a="x\\"\} 1\\nevil\{b=\\"\\\\"\} 1/)
})

test('label values beyond the limit are counted together', () => {
  const metrics = new Metrics()
  const counter = metrics.counter('c', 'C.')
  for (let i = 0; i < 5000; i++) counter.add({ a: String(i) })
  const lines = metrics.text().trim().split('\n').slice(2)
  assert.equal(lines.length, 1001)
  assert.ok(lines.includes('c{a="other"} 4000'))
})

test('a metric name must be unique and well formed', () => {
  const metrics = new Metrics()
  metrics.counter('c', 'C.')
  assert.throws(() => metrics.counter('c', 'C.'))
  assert.throws(() => metrics.counter('c{a="b"}', 'C.'))
})
