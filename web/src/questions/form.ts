// Forms of agents: fields of a JSON Schema, and the content that they make. Pure. The server checks the content
// against the schema; what is checked here is for whoever fills the form in.

import { revealed } from '../lib/plaintext';

export interface Choice { value: unknown; name: string; about: string }

export interface Field {
  name: string;
  title: string;
  about: string;
  required: boolean;
  kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'choices';
  choices: Choice[];
  /** What it has at first: a text, "true", the index of a choice, those of several with commas, or "". */
  initial: string;
  /** Of a number its bounds, of a text those of its characters, of choices those of how many are chosen. */
  min?: number;
  max?: number;
  format?: string;
}

/** The form of a question that takes a text. */
export const textField: readonly Field[] = [{ name: 'text', title: 'Answer', about: '', required: true, kind: 'text', choices: [], initial: '' }];

type Schema = Record<string, unknown>;

const object = (v: unknown): v is Schema => typeof v === 'object' && v !== null && !Array.isArray(v);
const text = (v: unknown): string => (typeof v === 'string' ? revealed(v) : '');
const number = (v: unknown): number | undefined => (typeof v === 'number' && Number.isFinite(v) ? v : undefined);

/** The fields of a form, or why it cannot be filled in here. */
export function fieldsOf(schema: unknown): Field[] | string {
  if (!object(schema)) return 'its form is not shown in full';
  const properties = schema['properties'] ?? {};
  if ((schema['type'] ?? 'object') !== 'object' || !object(properties)) return 'its form is no list of fields';
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  const fields: Field[] = [];
  for (const [name, of] of Object.entries(properties)) {
    const field = object(of) && fieldOf(name, of, required.includes(name));
    if (!field) return `its field “${revealed(name)}” is of a kind that this page does not know`;
    fields.push(field);
  }
  const absent = required.find((name) => !fields.some((f) => f.name === name));
  return absent === undefined ? fields : `it requires “${revealed(String(absent))}”, which it does not describe`;
}

function fieldOf(name: string, s: Schema, required: boolean): Field | undefined {
  const field: Field = { name, title: text(s['title']) || revealed(name), about: text(s['description']), required, kind: 'text', choices: [], initial: '' };
  const given = s['default'];
  const choices = choicesOf(s);
  if (choices) {
    if (choices.length === 0) return undefined;
    const at = choices.findIndex((c) => c.value === given);
    return { ...field, kind: 'choice', choices, initial: at < 0 ? '' : String(at) };
  }
  switch (s['type']) {
    case 'string':
      return { ...field, initial: typeof given === 'string' ? given : '', min: number(s['minLength']), max: number(s['maxLength']), format: text(s['format']) };
    case 'number': case 'integer':
      return { ...field, kind: s['type'], initial: typeof given === 'number' ? String(given) : '', min: number(s['minimum']), max: number(s['maximum']) };
    case 'boolean':
      return { ...field, kind: 'boolean', initial: given === true ? 'true' : '' };
    case 'array': {
      const items = object(s['items']) ? s['items'] : {};
      const several = choicesOf({ ...items, oneOf: items['anyOf'] });
      if (!several?.length) return undefined;
      const chosen = Array.isArray(given) ? several.flatMap((c, i) => (given.includes(c.value) ? [i] : [])) : [];
      return { ...field, kind: 'choices', choices: several, initial: chosen.join(), min: number(s['minItems']), max: number(s['maxItems']) };
    }
    default: return undefined;
  }
}

/** The indexes in the value of choices. */
export const indexesOf = (value: string): number[] => (value === '' ? [] : value.split(',').map(Number));

const single = (v: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof v);

/** The values to choose from; undefined: it is no choice, none: one that cannot be shown. */
function choicesOf(s: Schema): Choice[] | undefined {
  const { enum: values, enumNames: names, oneOf } = s;
  if (Array.isArray(values)) {
    if (!values.every(single)) return [];
    return values.map((value, i) => ({ value, name: text(Array.isArray(names) ? names[i] : '') || revealed(String(value)), about: '' }));
  }
  if (oneOf === undefined || oneOf === null) return undefined;
  if (!Array.isArray(oneOf) || !oneOf.every((o) => object(o) && single(o['const']))) return [];
  return (oneOf as Schema[]).map((o) => ({ value: o['const'], name: text(o['title']) || revealed(String(o['const'])), about: text(o['description']) }));
}

export type Values = ReadonlyMap<string, string>;

export const initialOf = (fields: readonly Field[]): Values => new Map(fields.map((f) => [f.name, f.initial]));

/** The content of a form, or what is wrong by the name of the field. What is empty and not required is left out. */
export function contentOf(fields: readonly Field[], values: Values): { content: Record<string, unknown>; errors: Map<string, string> } {
  const errors = new Map<string, string>();
  const content: [string, unknown][] = [];
  for (const f of fields) {
    const value = values.get(f.name) ?? '';
    const none = f.kind === 'choices' && f.required && !f.min; // an answer, too
    const wrong = value === '' && f.kind !== 'boolean' ? (f.required && !none ? 'is required' : '') : wrongIn(f, value);
    if (wrong) errors.set(f.name, wrong);
    else if (f.kind === 'choices' && (value !== '' || none)) content.push([f.name, indexesOf(value).map((i) => f.choices[i]!.value)]);
    else if (f.kind === 'boolean') content.push([f.name, value === 'true']);
    else if (value !== '') content.push([f.name, f.kind === 'choice' ? f.choices[Number(value)]!.value : f.kind === 'text' ? value : Number(value)]);
  }
  return { content: Object.fromEntries(content), errors };
}

function wrongIn(f: Field, value: string): string {
  if (f.kind === 'choice' || f.kind === 'boolean') return '';
  const n = f.kind === 'text' ? [...value].length : f.kind === 'choices' ? indexesOf(value).length : Number(value);
  if ((f.kind === 'number' || f.kind === 'integer') && (value.trim() === '' || !Number.isFinite(n))) return 'must be a number';
  if (f.kind === 'integer' && !Number.isSafeInteger(n)) return 'must be a whole number';
  const unit = f.kind === 'text' ? ' characters' : '';
  const must = f.kind === 'choices' ? 'must have' : 'must be';
  if (f.min !== undefined && n < f.min) return `${must} at least ${f.min}${unit}`;
  if (f.max !== undefined && n > f.max) return `${must} at most ${f.max}${unit}`;
  return '';
}

/** The bounds of a field, for people. */
export function boundsText({ kind, min, max }: Field): string {
  const unit = kind === 'text' ? ' characters' : kind === 'choices' ? ' of these' : '';
  if (min !== undefined && max !== undefined) return `${min} to ${max}${unit}`;
  if (min !== undefined && (kind !== 'text' || min > 1) && (kind !== 'choices' || min > 0)) return `at least ${min}${unit}`;
  return max !== undefined ? `at most ${max}${unit}` : '';
}
