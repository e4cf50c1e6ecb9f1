\set v -3
select :v::int + :v, ':v', :missing, 'x:missing', 1::int, '12:30:45', ':text';