/** Credentials that several agents accept. */
import type { Credential } from './assignment.ts'

export const ANTHROPIC: Credential = {
  variable: 'ANTHROPIC_API_KEY',
  title: 'an API key of Anthropic',
  baseUrl: 'https://api.anthropic.com',
  baseUrlVariable: 'ANTHROPIC_BASE_URL',
  header: 'x-api-key',
  scheme: { kind: 'bare' },
}

export const OPENAI: Credential = {
  variable: 'OPENAI_API_KEY',
  title: 'an API key of OpenAI',
  baseUrl: 'https://api.openai.com/v1',
  baseUrlVariable: 'OPENAI_BASE_URL',
  header: 'authorization',
  scheme: { kind: 'prefix', prefix: 'Bearer' },
}

/** For agents that work with any OpenAI-compatible API. */
export const LIKE_OPENAI: Credential = { ...OPENAI, title: 'an API key of OpenAI, or of a service like it' }
