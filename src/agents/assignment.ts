/** What an agent is given for one run, and the process that is started. */
import type { SecretScheme } from '../core/secret.ts'

/** A way to pay for a model: the user's variable that holds the key, and where the key is sent. */
export interface Credential {
  /**
   * A variable of the user's environment, or the name of a secret. In the sandbox it holds the placeholder.
   */
  readonly variable: string
  /** For messages: `an API key`, `a Claude subscription`. */
  readonly title: string
  readonly baseUrl: string
  /** The user's variable with another address, such as a gateway's. */
  readonly baseUrlVariable?: string | undefined
  readonly header: string
  readonly scheme: SecretScheme
  /** More hosts that accept the same key. */
  readonly hosts?: readonly string[] | undefined
  /** The file that holds the key after a sign-in. */
  readonly signIn?: SignIn | undefined
}

export interface SignIn {
  readonly path: string
  /**
   * The key, and files for the sandbox in which `placeholder` replaces it. Undefined if the file cannot be
   * used.
   */
  read(text: string): { readonly value: string; files(placeholder: string): readonly AgentFile[] } | undefined
}

/** In files for the sandbox, this text is replaced by the sandbox's placeholder of the key. */
export const KEY_PLACEHOLDER = '@agentpod-placeholder@'

/** A file below the agent's home directory in the sandbox. */
export interface AgentFile {
  readonly path: string
  readonly content: string
}

export interface McpServer {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** What an agent is given for one run. */
export interface Assignment {
  /** Where the agent is installed. */
  readonly directory: string
  readonly home: string
  readonly workspace: string
  readonly model: string | undefined
  readonly credential: Credential
  /** Address of the model's API: the credential's, or a gateway. */
  readonly baseUrl: string
  readonly mcpServers: readonly McpServer[]
  /** Whether it has to ask before it acts. If not, everything is allowed: the sandbox is the boundary. */
  readonly asks: boolean
  /** Set if a conversation is resumed. */
  readonly session: string | undefined
  readonly prompt: string
  /** The command of an agent that takes one. */
  readonly command: readonly string[]
}

/** A process of the agent. The sandbox's environment already has its key. */
export interface Launch {
  readonly command: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  /** Written before the process starts. */
  readonly files: readonly AgentFile[]
}
