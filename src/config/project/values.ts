/** The smallest parts of the schema: text, names, sizes, durations, paths. */
import * as z from 'zod'
import { isAgentPodError } from '../../core/error.ts'
import { readByteSize, readMib, readMs } from '../../util/quantity.ts'

/** The description of a key for the reference page and editors; `absent` is the default. */
export function about(
  description: string,
  absent?: string,
): Record<'description' | 'absent', string | undefined> {
  return { description, absent }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that are refused
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/

/** Text for people and shells: tabs and line ends are allowed, other control characters are not. */
export function textValue(longest: number): z.ZodString {
  return z
    .string()
    .min(1)
    .max(longest)
    .refine((value) => !CONTROL.test(value), 'has control characters')
}

export function lineValue(longest: number): z.ZodString {
  return textValue(longest).refine((value) => !/[\t\r\n]/.test(value), 'must be one line')
}

export const commandValue = textValue(8192).regex(/\S/, 'is empty').meta({ kind: 'command' })

export const WORD = /^[a-z][a-z0-9-]{0,31}$/

/** A name that the project chooses. */
export function wordValue(what: string): z.ZodString {
  return z
    .string()
    .regex(WORD, `${what} is 1 to 32 lowercase letters, digits and dashes, and begins with a letter`)
}

export const portValue = z
  .int({ error: 'must be a port, a whole number from 1 to 65535' })
  .min(1, 'must be a port, a whole number from 1 to 65535')
  .max(65_535, 'must be a port, a whole number from 1 to 65535')
  .meta({ kind: 'port' })

/** A path below the project, on this machine or in a sandbox, never above it. */
export const pathValue = lineValue(512)
  .refine(
    (value) => !/^[/~]|\\/.test(value) && value.split('/').every((part) => !['', '.', '..'].includes(part)),
    'must be a path below the project, like scripts/setup.sh',
  )
  .meta({ kind: 'path' })

const SIZE = /^[0-9]{1,12}(?:\.[0-9]{1,6})?[MmGgTt][Ii]?[Bb]?$/
const TIME = /^[0-9]{1,12}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d)$/

/** In MiB, when read by `readMib`. */
export function sizeValue(least: string, most: string): z.ZodString {
  const form = 'must be a size with its unit, in quotes, like "512MB" or "4GB"'
  return z
    .string({ error: form })
    .regex(SIZE, form)
    .refine(
      (value) => isWithin(readMib(value), readMib(least), readMib(most)),
      `must be from ${least} to ${most}`,
    )
    .meta({ kind: 'size' })
}

const RATE = /^[0-9]{1,12}(?:\.[0-9]{1,6})?[KkMmGg][Ii]?[Bb]?$/
const RATE_FORM = 'must be a size for each second with its unit, in quotes, like "500KB" or "10MB"'

/** Bytes a second, when read by `readByteSize`. */
export const rateValue = z
  .string({ error: RATE_FORM })
  .regex(RATE, RATE_FORM)
  .refine((value) => isWithin(readByteSize(value), 1024, 1024 ** 4), 'must be from 1KiB to 1024GiB')
  .meta({ kind: 'size' })

/** In milliseconds, when read by `readMs`. */
export function durationValue(least: string, most: string): z.ZodString {
  const form = 'must be a time with its unit, in quotes, like "90s", "15m" or "1h"'
  return z
    .string({ error: form })
    .regex(TIME, form)
    .refine(
      (value) => isWithin(readMs(value), readMs(least), readMs(most)),
      `must be from ${least} to ${most}`,
    )
    .meta({ kind: 'time' })
}

function isWithin(value = Number.NaN, least = 0, most = 0): boolean {
  return value >= least && value <= most
}

/** A table whose keys the project chooses. */
export function keyedTable<K extends z.ZodString, V extends z.ZodType>(
  key: K,
  value: V,
  most: number,
): z.ZodRecord<K, V> {
  return z
    .record(key, value)
    .refine((map) => Object.keys(map).length <= most, `has more than ${most} entries`)
}

/** A check by a parser that throws an AgentPodError; its message becomes the issue. */
export function acceptedBy(check: (value: never) => unknown): (value: unknown, ctx: z.RefinementCtx) => void {
  return (value, ctx) => {
    try {
      check(value as never)
    } catch (error) {
      if (!isAgentPodError(error, 'invalid_argument')) throw error
      const { message, hint, reason } = error
      ctx.addIssue({ code: 'custom', message, params: { hint, reason } })
    }
  }
}
