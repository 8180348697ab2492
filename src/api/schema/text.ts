/** Text as requests may hold it. */
import { z } from 'zod'

export const plain = (most: number): z.ZodString =>
  z
    .string()
    .max(most)
    .regex(/^[^\0]*$/, 'has a NUL byte')

/** For people, on a terminal. */
export const line = (most: number): z.ZodString =>
  z
    .string()
    .max(most)
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'is not one line of text')

export const absolutePath = plain(4096).regex(/^\//, 'is not an absolute path')
