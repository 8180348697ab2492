import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UploadTurns } from './upload-turns.ts'

test('uploads above the limit wait for their turn, and owners do not wait for each other', async () => {
  const turns = new UploadTurns({ atOnce: 2, mostWaiting: 2 })
  const order: string[] = []
  const first = await turns.enter('one')
  const second = await turns.enter('one')
  const noted = async (name: string): Promise<() => void> => {
    const leave = await turns.enter('one')
    order.push(name)
    return leave
  }
  const third = noted('third')
  const fourth = noted('fourth')
  await assert.rejects(turns.enter('one'), { code: 'resource_exhausted' })
  ;(await turns.enter('two'))()
  assert.deepEqual(order, [])
  first()
  first()
  ;(await third)()
  await fourth
  assert.deepEqual(order, ['third', 'fourth'])
  second()
  ;(await fourth)()
  ;(await turns.enter('one'))()
})
