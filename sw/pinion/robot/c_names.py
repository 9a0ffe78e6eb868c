"""Names of arrays in C and C++, where a user's names may be reserved words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pinion.base.escaping import identifier

_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
        char32_t char8_t class compl concept const const_cast consteval constexpr constinit
        continue co_await co_return co_yield decltype default delete do double dynamic_cast
        else enum explicit export extern false float for friend goto if inline int long
        mutable namespace new noexcept not not_eq nullptr operator or or_eq private
        protected public register reinterpret_cast requires restrict return short signed sizeof
        static static_assert static_cast struct switch template this thread_local throw true
        try typedef typeid typename typeof typeof_unqual union unsigned using virtual void
        volatile wchar_t while xor xor_eq
        linux unix i386
        NULL EOF FILE BUFSIZ offsetof size_t ptrdiff_t nullptr_t max_align_t stdin stdout stderr
        """,
    )
)
"""Keywords up to C23 and C++23, macros that compilers define, and names from the standard headers
that generated headers include."""

_HEADERS = re.compile(
    # Types and macros of <stdint.h>, macros of <limits.h>, <float.h> and <math.h>.
    r"u?int(_least|_fast)?\d+_t|u?int(ptr|max)_t|NAN|INFINITY|HUGE_VAL[FL]?|M_[A-Z0-9_]+|"
    r"(U?INT|U?INT(_LEAST|_FAST)?\d+|U?INT(PTR|MAX)|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC|U?CHAR|"
    r"SCHAR|U?SHRT|U?LONG|U?LLONG|FLT|DBL|LDBL)_[A-Z0-9_]+"
)


def c_names(names: Sequence[str], reserved: Iterable[str] = ()) -> list[str]:
    """Return distinct names that are valid in C and C++ and not in ``reserved``.

    Valid names are unchanged, others get trailing underscores. A name that is not an
    identifier, or whose underscores reserve it for compilers, is respelled.
    """
    used, free_names = set(reserved), []
    for name in names:
        plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and "__" not in name
        free = name if plain else identifier(name)
        if free in _WORDS or _HEADERS.fullmatch(free):
            free = f"{free}_"
        while free in used:
            free = f"{free}_" if not free.endswith("_") else f"{free}2"
        used.add(free)
        free_names.append(free)
    return free_names
