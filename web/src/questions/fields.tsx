import { type Signal } from '@preact/signals';
import { boundsText, indexesOf, type Field, type Values } from './form';

/** The fields of a form. `id` begins the ids of its elements. */
export function FormFields({ id, fields, values, errors }: { id: string; fields: readonly Field[]; values: Signal<Values>; errors: ReadonlyMap<string, string> }) {
  const set = (name: string) => (value: string): void => {
    values.value = new Map(values.value).set(name, value);
  };
  return <>{fields.map((f, i) => <FormField key={f.name} id={`${id}-${i}`} field={f} value={values.value.get(f.name) ?? ''} set={set(f.name)} error={errors.get(f.name)} />)}</>;
}

interface Props { id: string; field: Field; value: string; set: (value: string) => void; error?: string }

const manyChoices = 8; // that are a menu

function FormField({ id, field: f, value, set, error }: Props) {
  const hint = [f.about, boundsText(f)].filter(Boolean).join(' · ');
  const notes = (
    <>
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
      {error && <p class="error" id={`${id}-error`}>{f.title} {error}</p>}
    </>
  );
  const common = { id, required: f.required, 'aria-invalid': error ? true : undefined, 'aria-describedby': [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined };
  const label = <>{f.title}{!f.required && f.kind !== 'boolean' && <span class="faint"> optional</span>}</>;
  if (f.kind === 'boolean') {
    return (
      <div class="field">
        <label class="check" for={id}><input type="checkbox" {...common} required={false} checked={value === 'true'} onChange={(e) => set(e.currentTarget.checked ? 'true' : '')} /><span>{label}</span></label>
        {notes}
      </div>
    );
  }
  if (f.kind === 'choices' || (f.kind === 'choice' && f.choices.length <= manyChoices)) {
    const several = f.kind === 'choices';
    const chosen = indexesOf(value);
    const choose = (i: number): void => set(!several ? String(i) : (chosen.includes(i) ? chosen.filter((c) => c !== i) : [...chosen, i]).sort((a, b) => a - b).join());
    return (
      <fieldset class="field radios" aria-describedby={common['aria-describedby']}>
        <legend>{label}</legend>
        {f.choices.map((c, i) => (
          <label key={i} class="check">
            <input type={several ? 'checkbox' : 'radio'} name={id} required={f.required && !several} checked={chosen.includes(i)} onChange={() => choose(i)} />
            <span>{c.name}{c.about && <span class="faint"> {c.about}</span>}</span>
          </label>
        ))}
        {notes}
      </fieldset>
    );
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {f.kind === 'choice' ? (
        <select {...common} value={value} onChange={(e) => set(e.currentTarget.value)}>
          <option value="">{f.required ? 'Choose one' : 'None'}</option>
          {f.choices.map((c, i) => <option key={i} value={String(i)}>{c.about ? `${c.name}: ${c.about}` : c.name}</option>)}
        </select>
      ) : f.format === 'date' ? (
        <input {...common} type="date" value={value} onInput={(e) => set(e.currentTarget.value)} />
      ) : f.kind !== 'text' || f.format || (f.max ?? Infinity) <= 100 ? (
        <input
          {...common} type="text" value={value} autocomplete="off"
          inputMode={f.kind === 'integer' ? 'numeric' : f.kind === 'number' ? 'decimal' : f.format === 'email' ? 'email' : f.format === 'uri' ? 'url' : undefined}
          onInput={(e) => set(e.currentTarget.value)}
        />
      ) : (
        <textarea {...common} rows={2} value={value} onInput={(e) => set(e.currentTarget.value)} />
      )}
      {notes}
    </div>
  );
}
