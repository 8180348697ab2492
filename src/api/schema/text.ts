/** Text fields of requests. */
import * as z from 'zod'

export const withoutNul = (most: number): z.ZodString =>
  z
    .string()
    .max(most)
    .regex(/^[^\0]*$/, 'contains a NUL byte')

/** One line that is safe to print on a terminal. */
export const textLine = (most: number): z.ZodString =>
  z
    .string()
    .max(most)
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'must be one line of text')

export const absolutePath = withoutNul(4096).regex(/^\//, 'must be an absolute path')
