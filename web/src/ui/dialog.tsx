import { type ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { CloseIcon } from './icons';

/** A modal dialog, while it is rendered. Escape, the cross and a click beside it close it. The focus returns to where it was. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const dialog = ref.current;
    dialog?.showModal();
    return () => {
      const at = document.activeElement; // elsewhere if the user was faster
      if (!at || at === document.body || dialog?.contains(at)) before?.focus?.({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby="dialog-title"
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onMouseDown={(e) => {
        const box = e.currentTarget.getBoundingClientRect(); // its scrollbar is the dialog, too
        const inside = e.clientX >= box.left && e.clientX < box.right && e.clientY >= box.top && e.clientY < box.bottom;
        if (e.target === e.currentTarget && !inside) onClose();
      }}
    >
      <div class="dialog-head">
        <h2 id="dialog-title">{title}</h2>
        <button type="button" class="button quiet icon" aria-label="Close" onClick={onClose}><CloseIcon /></button>
      </div>
      {children}
    </dialog>
  );
}
