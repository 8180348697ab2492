import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readMib, readMs } from './quantity.ts'

describe('a size', () => {
  for (const [text, mib] of [
    ['512', 512],
    ['512m', 512],
    ['512MiB', 512],
    ['2g', 2048],
    ['4GB', 4096],
    ['1.5Gi', 1536],
    ['1T', 1024 * 1024],
    ['0', 0],
  ] as const)
    test(`the size ${text} is ${mib} MiB`, () => assert.equal(readMib(text), mib))

  for (const text of ['', 'g', '-1g', '1 g', '1k', '1e3', '.5g', '1.g', '1gg', '0x10', '1bm'])
    test(`${JSON.stringify(text)} is not a size`, () => assert.equal(readMib(text), undefined))
})

describe('a time', () => {
  for (const [text, ms] of [
    ['90', 90_000],
    ['90s', 90_000],
    ['250ms', 250],
    ['15m', 900_000],
    ['1.5h', 5_400_000],
    ['30d', 30 * 86_400_000],
  ] as const)
    test(`the duration ${text} is ${ms} ms`, () => assert.equal(readMs(text), ms))

  for (const text of ['', 'm', '-1m', '1 m', '1M', '1w', '1min', '1h30m'])
    test(`${JSON.stringify(text)} is not a duration`, () => assert.equal(readMs(text), undefined))
})
