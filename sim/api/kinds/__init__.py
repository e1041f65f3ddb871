"""The kinds of the API: one module or folder for each, with all that belongs to it.

How to add a kind -----------------
1. Write `<group>/<kind>.py` (or a folder with `kind.py` if the kind needs several modules). It ends
   in

       KIND = Kind(
           rows=(Row("apps", "v1", "widgets", "Widget", short=("wd",), subs=(STATUS,)),),
           strategy=Strategy(status=True, generation="spec"),
           defaults=_fill_defaults,
           validate_create=_validate_create,
           validate_update={"": _validate_update, "status": _validate_status},
           columns=(NAME, "Size:integer=spec.size", AGE),
           cells=_cells,
       )

   `kind.py` documents each member. All but `rows` may be left out: a kind without validation has
   its metadata checked, a kind without cells shows name and creation time.
2. Add `<kind>.KIND` to `KINDS` in `registry.py`, at its place in the order of discovery.
3. Put the protobuf field numbers of its messages into `<group>/numbers.txt`, or set `json_only` in
   its rows. The schema of the fields needs no work: it is upstream's OpenAPI document.

`tests/unit/sim/api/kinds/test_adding_a_kind.py` carries this out. The module header names the files
that the kind mirrors (`Mirrors`), its deviations (`Differs`) and the oddities of upstream that it
keeps (`Quirk`).

Where things are ----------------
- `kind.py` defines the record. `registry.py` lists the kinds. `groups.py` has the priorities of API
  groups. `custom.py` has the strategies of custom resources.
- `strategies.py`, `defaults.py`, `validation.py`, `tables.py` and `conversion.py` are the generic
  code: they read the record of a resource (`Resource.behavior`) and name no kind.
- `common/` holds rules that several kinds share. A rule of one kind stays in its module.

Imports point from the generic code to `registry`, from there to the kinds, and from the kinds to
`common` and `kind`. A kind may import another kind of which it uses a rule.
"""
