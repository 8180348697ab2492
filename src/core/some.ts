/** Some of T's fields, each of which may also be left undefined. */
export type Some<T> = { readonly [K in keyof T]?: T[K] | undefined }
