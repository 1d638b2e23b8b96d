/** Inclusive; from > to is empty. */
export type Versions = [number, number];

export type Type =
  | { kind: 'fixed'; name: string; size: number }
  | { kind: 'sized'; name: 'string' | 'bytes' | 'records' }
  | { kind: 'array'; of: Type }
  | { kind: 'struct'; struct: Struct };

export interface Field {
  name: string;
  type: Type;
  versions: Versions;
  nullable: Versions;
  tagged: Versions;
  tag: number | undefined;
  ignorable: boolean;
  /** undefined: the empty value of the type. */
  default: number | bigint | boolean | string | null | undefined;
}

export interface Struct {
  typeName: string;
  fields: Field[];
  message: Message;
}

export interface Message {
  name: string;
  valid: Versions;
  flexible: Versions;
  root: Struct;
}

export interface Form {
  tagged: boolean;
  nullable: boolean;
  flexible: boolean;
}

export function parseMessage(schema: unknown): Message | undefined;
export function formOf(field: Field, version: number): Form | undefined;
export function within(range: Versions, version: number): boolean;
