/** Like Partial, but fields may also be undefined. */
export type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined }
