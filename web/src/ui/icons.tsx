// Line icons of 16 pixels. They decorate: what they mean is in text or in aria-label beside them.

function icon(d: string, fill = false) {
  return () => (
    <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" fill={fill ? 'currentColor' : 'none'} stroke={fill ? 'none' : 'currentColor'} stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">
      <path d={d} />
    </svg>
  );
}

export const SearchIcon = icon('M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.6 10.6 14 14');
export const PlusIcon = icon('M8 3v10M3 8h10');
export const BellIcon = icon('M4 7a4 4 0 0 1 8 0v3l1.2 1.8H2.800L4 10V7ZM6.500 13.800a1.600 1.600 0 0 0 3 0');
export const BellOffIcon = icon('M2 2l12 12M12 9.500V7a4 4 0 0 0-6.500-3.100M4 6.500V10l-1.200 1.800h8.700M6.500 13.800a1.600 1.600 0 0 0 3 0');
export const MenuIcon = icon('M3 4.500h10M3 8h10M3 11.500h10');
export const CloseIcon = icon('M4 4l8 8M12 4l-8 8');
export const CopyIcon = icon('M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3');
export const CheckIcon = icon('M3 8.500l3.200 3L13 4.500');
