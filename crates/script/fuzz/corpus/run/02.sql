select ';' || ';''' || E'\';' || "x;" from (select ';' as "x;") s;
select 2;