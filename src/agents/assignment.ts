/** What an agent is given for one run, and what is started of it. */
import type { SecretScheme } from '../core/secret.ts'

/** A way to pay for a model: a variable of the user's that has the key, and where the key goes. */
export interface Credential {
  /** In the user's environment, or the name of a secret; the same variable holds the placeholder inside. */
  readonly variable: string
  /** For people: `an API key`, `a Claude subscription`. */
  readonly title: string
  readonly baseUrl: string
  /** The user's variable that names another place, such as a gateway. */
  readonly baseUrlVariable?: string | undefined
  readonly header: string
  readonly scheme: SecretScheme
  /** More hosts that take the same key. */
  readonly hosts?: readonly string[] | undefined
  /** A file of the user's that holds the key, for those who have signed in: a path below the home directory, and how to take it out. */
  readonly signIn?: SignIn | undefined
}

export interface SignIn {
  readonly path: string
  /** The value of the key, and files for the inside that go with it: `placeholder` stands where the key stood. Undefined where it is of no use. */
  read(text: string): { readonly value: string; files(placeholder: string): readonly AgentFile[] } | undefined
}

/** Stands in files of the inside where the sandbox's own placeholder of the key is put. */
export const PLACEHOLDER = '@agentpod-placeholder@'

/** A file below the agent's home directory inside. */
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

/** What one run of it is given. */
export interface Assignment {
  /** Where it is installed. */
  readonly directory: string
  readonly home: string
  readonly workspace: string
  readonly model: string | undefined
  readonly credential: Credential
  /** Where the model is asked: the credential's, or a gateway. */
  readonly baseUrl: string
  readonly mcpServers: readonly McpServer[]
  /** Whether it has to ask before it acts. False: everything is allowed, since the sandbox is the boundary. */
  readonly asks: boolean
  /** Given where a conversation goes on. */
  readonly session: string | undefined
  readonly prompt: string
  /** Of `custom`: the command. */
  readonly command: readonly string[]
}

/** A process of the agent: what is started, in which surroundings. Its key is in the sandbox's environment already. */
export interface Launch {
  readonly command: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  /** Written before it starts. */
  readonly files: readonly AgentFile[]
}
