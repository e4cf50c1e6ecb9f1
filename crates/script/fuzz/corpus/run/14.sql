select 2 as x, null as y, 'a''b' as z \gset p_
select :p_x::int, :p_z::text, :p_y::text;
